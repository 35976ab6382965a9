import t from 'tap'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { burst } from '../soak/burst.ts'
import { crowd } from '../soak/crowd.ts'
import { Ground } from '../soak/ground.ts'
import type { Findings } from '../soak/scene.ts'
import { assets, skip } from '../support/kubectl-stack.ts'

/** Many calls at once through one agentk that keeps two idle tunnels: the scenes of `npm run soak`. */

/** limit of one scene */
const timeoutMs = 90_000

t.test('many calls at once', { skip, timeout: 2 * timeoutMs }, async (t) => {
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const ground = await Ground.start({ kubeconfig: controlPlane.kubeconfig }, AbortSignal.timeout(timeoutMs))
  t.teardown(() => ground.stop())
  const stage = () => ({ kube: ground.kube, say: () => undefined, signal: AbortSignal.timeout(timeoutMs) })
  const scenes: Record<string, () => Promise<Findings>> = {
    '500 calls against two idle tunnels': () =>
      burst(stage(), { calls: 500, idleTunnels: () => ground.idleTunnels(), wantedIdle: 2 }),
    '200 watches and 50 execs': () => crowd(stage(), { watches: 200, execs: 50 }),
  }
  for (const [name, play] of Object.entries(scenes)) {
    await t.test(name, async (t) => {
      const { figures, failures } = await play()
      for (const figure of figures) t.comment(figure)
      t.same(failures, [])
    })
  }
})
