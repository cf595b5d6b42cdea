"""From an environment to its painter."""

from __future__ import annotations

from collections.abc import Callable

import jax

from pqn.envs.adapters.craftax import CraftaxEnv
from pqn.envs.adapters.gymnax import GymnaxEnv
from pqn.envs.adapters.hanabi import HanabiEnv
from pqn.envs.adapters.mpe import MpeEnv
from pqn.envs.adapters.overcooked import OvercookedEnv
from pqn.envs.adapters.smax import SmaxEnv
from pqn.envs.autoreset import Autoreset
from pqn.envs.contract import HostEnv, JaxEnv
from pqn.errors import EnvError
from pqn.watch.families import classic, craftax, grids, hanabi, mpe, overcooked, smax
from pqn.watch.view import Painter, checked_picture, enlarged

RENDER_FPS = 30  # of simulators that draw themselves, and of environments of the user


def find_painter(env: JaxEnv | HostEnv) -> Painter:
    """The painter of an environment: its own `render` first, then ours, then its observations if they are pictures.

    Raises:
      EnvError: it has no pictures.
    """
    found = _own(env) or _of_family(env) or grids.painter(env.spec)
    if found is None:
        raise EnvError(
            f"{env.spec.name} has no pictures: give it a method `render`, which returns [height, width, 3] uint8 or a "
            "text (docs/watching.md)"
        )
    return found


def draws_itself(env: object) -> bool:
    """Whether an environment has pictures of its own."""
    return callable(getattr(env, "render", None))


def _own(env: JaxEnv | HostEnv) -> Painter | None:
    """Pictures that an environment draws by itself. One of many copies draws all of them at once, before `paint`."""
    source = f"render of {env.spec.name}"
    if draws_itself(env):
        fps = 15 if env.spec.name.startswith("atari:") else RENDER_FPS  # an emulator steps four frames of 60
        return Painter(lambda view: enlarged(checked_picture(view.state, source)), fps)
    single = env.env if isinstance(env, Autoreset) else None
    render: Callable[..., object] | None = getattr(single, "render", None)
    if single is None or render is None:
        return None
    state, _ = jax.device_get(jax.jit(single.reset)(jax.random.key(0)))
    if isinstance(render(state), str):
        return Painter(lambda view: str(render(view.state)), is_text=True)
    return Painter(lambda view: enlarged(checked_picture(render(view.state), source)), RENDER_FPS)


def _of_family(env: JaxEnv | HostEnv) -> Painter | None:
    """Our painter of one of the families here."""
    match getattr(env, "env", None):
        case GymnaxEnv() as one:
            return classic.painter(one)
        case CraftaxEnv() as one:
            return craftax.painter(one)
        case SmaxEnv() as one:
            return smax.painter(one)
        case OvercookedEnv() as one:
            return overcooked.painter(one)
        case HanabiEnv() as one:
            return hanabi.painter(one)
        case MpeEnv() as one:
            return mpe.painter(one)
    return None
