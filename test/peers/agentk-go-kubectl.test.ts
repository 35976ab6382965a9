import t from 'tap'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { createServiceAccount } from '../../dev/control-plane/service-account.ts'
import { AgentkGo, withoutGo } from '../support/agentk-go.ts'
import { objectOperations } from '../support/kubectl-operations.ts'
import { skipOf, titleOf } from '../support/kubectl-side.ts'
import { assets, throughStack, skip as withoutKubectl } from '../support/kubectl-stack.ts'
import { logOperations, streamOperations } from '../support/kubectl-streams.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { agentToken } from '../support/stack-directory.ts'

/** kubectl with a real API server behind kas and an agent in Go. */

const skip = withoutGo || withoutKubectl

// wire: upgrade.kubectl
t.test('kubectl through kas and an agent of another make', { skip, timeout: 240_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const account = await createServiceAccount(controlPlane.admin, { namespace: 'default', name: 'agentk' })
  const stack = await Stack.start(processes, { agentKubeconfig: '', scheme: 'wss' })
  const agent = await AgentkGo.start(t, {
    kasAddress: stack.agentsUrl,
    token: agentToken,
    flags: [
      `--ca-cert-file=${stack.caFile}`,
      `--api-server=${controlPlane.server}`,
      `--api-ca=${controlPlane.caFile}`,
      `--api-token=${controlPlane.signToken({ account, lifeMs: 3_600_000 })}`,
    ],
  })
  await agent.event('configuration')
  const side = await throughStack('agentk-go', stack, { processes, controlPlane })
  for (const operation of [...objectOperations, ...logOperations, ...streamOperations]) {
    await t.test(titleOf(operation), { skip: skipOf(operation) }, async () => {
      await operation.run(side)
    })
  }
  t.same(agent.all('invalid-response'), [])
  t.equal(agent.all('connected').length, 1)
})
