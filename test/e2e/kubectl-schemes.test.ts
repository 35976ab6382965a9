import t from 'tap'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { deleteOperation, objectOperations } from '../support/kubectl-operations.ts'
import { titleOf } from '../support/kubectl-side.ts'
import { assets, skip, throughStack } from '../support/kubectl-stack.ts'
import { logOperations, streamOperations } from '../support/kubectl-streams.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'

/** What lasts and what is upgraded works whichever way agentk dials; the table of all operations has wss. */

const names = ['apply', 'rollout status', 'get --watch', 'logs --follow', 'exec, 1 MB through cat', 'port-forward']
const operations = [...objectOperations, ...logOperations, ...streamOperations].filter(({ name }) =>
  names.includes(name),
)

t.test('kubectl through a tunnel', { skip, timeout: 240_000 }, async (t) => {
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const over = (scheme: 'grpc' | 'grpcs' | 'ws') =>
    t.test(`over ${scheme}`, { buffered: true }, async (t) => {
      const processes = await Processes.start(t)
      const stack = await Stack.start(processes, { agentKubeconfig: controlPlane.kubeconfig, scheme })
      await stack.startAgentk()
      await stack.connected()
      const side = await throughStack(`over-${scheme}`, stack, { processes, controlPlane })
      for (const operation of [...operations, deleteOperation]) {
        await t.resolves(operation.run(side), titleOf(operation))
      }
    })
  t.jobs = 3 // side by side: each has its own programs and namespace, and waits much
  await Promise.all([over('grpc'), over('grpcs'), over('ws')])
})
