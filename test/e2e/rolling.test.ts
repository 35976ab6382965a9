import t from 'tap'
import { RollingGround, twoPods } from '../soak/rolling/rolling-ground.ts'
import { rolling } from '../soak/rolling.ts'

/** A short rolling restart under load; `npm run soak -- rolling` is the long one. */

const timeoutMs = 120_000
const graces = { listenMs: 1500, shutdownMs: 1000 }

t.test(
  'two of three replicas are restarted: no call fails, nothing is cut early',
  { timeout: timeoutMs },
  async (t) => {
    const signal = AbortSignal.timeout(timeoutMs)
    const ground = await RollingGround.start(
      {
        assets: undefined,
        graces: { listen: `${graces.listenMs}ms`, shutdown: `${graces.shutdownMs}ms` },
        startAgents: twoPods('wss'),
      },
      signal,
    )
    t.teardown(() => ground.stop())
    const say = (text: string) => t.comment(text)
    const load = { calls: 20, watches: 6, execs: 3, restarts: 2 }
    const { figures, failures } = await rolling({ ground, say, signal }, { ...load, graces, calmMs: 500 })
    for (const figure of figures) t.comment(figure)
    t.same(failures, [])
  },
)
