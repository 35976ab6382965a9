import t, { type Test } from 'tap'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { absent } from '../support/absent.ts'
import { deleteOperation, objectOperations } from '../support/kubectl-operations.ts'
import { proxyOperations } from '../support/kubectl-proxy.ts'
import { type KubectlSide, titleOf } from '../support/kubectl-side.ts'
import { assets, skip } from '../support/kubectl-stack.ts'
import { logOperations, streamOperations } from '../support/kubectl-streams.ts'
import { startHaproxy, startNginx } from './front-program.ts'
import { outlivesReload } from './front-reload.ts'
import { sidesThrough } from './front-sides.ts'
import { FrontedReplicas } from './fronted-replicas.ts'

/** kubectl through the fronts that are shipped, each before the same replicas with agents of its own. */

type Form = 'WebSocket' | 'SPDY'

const once = ['apply', 'rollout status', 'get', 'get --watch']
const first = [...objectOperations].filter(({ name }) => once.includes(name))
const lasting = ['logs --follow', 'exec, 1 MB through cat', 'exec, exit status', 'port-forward']
const streams = [...logOperations, ...streamOperations].filter(({ name }) => lasting.includes(name))
const behindProxy = proxyOperations.filter(({ form }) => form === undefined)
/** the first agent connects by WebSocket, the second by gRPC; `forms` has the form of kubectl's streams to each */
const fronts = [
  { program: 'nginx', start: startNginx, agents: [42, 43], forms: ['WebSocket', 'SPDY'] },
  { program: 'haproxy', start: startHaproxy, agents: [44, 45], forms: ['SPDY', 'WebSocket'] },
] as const

t.test('kubectl through fronts', { skip, timeout: 180_000 }, async (t) => {
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  const [replicas] = await Promise.all([FrontedReplicas.start(t), controlPlane.start()])
  t.jobs = fronts.length
  await Promise.all(
    fronts.map(({ program, start, agents, forms }) => {
      const needs = absent(program) && `needs ${program}`
      return t.test(program, { skip: needs, buffered: true }, async (t) => {
        const front = await start(replicas)
        const sides = await sidesThrough(front, agents, { replicas, controlPlane })
        t.jobs = sides.length
        await Promise.all(
          sides.map((side, i) => t.test(side.name, { buffered: true }, (t) => plays(t, side, forms[i] as Form))),
        )
        await t.test('reload', (t) => outlivesReload(t, { front, replicas, agents, sides }))
        for (const side of sides) await t.resolves(deleteOperation.run(side), `${side.name}: delete`)
      })
    }),
  )
})

async function plays(t: Test, side: KubectlSide, chosen: Form): Promise<void> {
  for (const operation of [...first, ...streams, ...behindProxy]) {
    const { form = chosen } = operation
    if (form === chosen) await t.resolves(operation.run(side), titleOf(operation))
  }
}
