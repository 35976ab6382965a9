import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { createServiceAccount } from '../../dev/control-plane/service-account.ts'
import { AgentkGo, withoutGo } from '../support/agentk-go.ts'
import { Kubectl } from '../support/kubectl.ts'
import { objectOperations } from '../support/kubectl-operations.ts'
import { identities, type KubectlSide } from '../support/kubectl-side.ts'
import { logOperations, streamOperations } from '../support/kubectl-streams.ts'
import { Processes } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { agentToken } from '../support/stack-directory.ts'

/** kubectl with a real API server behind kas and an agent of another make. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'all')
if (!existsSync(join(assets, 'kubectl'))) missing.push('kubectl')
const skip = withoutGo || (missing.length > 0 && `needs ${missing.join(', ')}`)

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
  const kubeconfigs = Object.fromEntries(identities.map((identity) => [identity, stack.kubeconfig(identity)]))
  const side: KubectlSide = {
    name: 'agentk-go',
    kubectl: new Kubectl({ processes, assets }, { kubeconfig: stack.kubeconfig('agent'), namespace: 'agentk-go' }),
    kubeconfigs: kubeconfigs as KubectlSide['kubeconfigs'],
    folder: processes.folder,
    writeLogLine: (line) => controlPlane.writeLogLine(line),
  }
  await side.kubectl.ok(['create', 'namespace', side.kubectl.namespace])
  for (const operation of [...objectOperations, ...logOperations, ...streamOperations]) {
    await t.test(operation.form ? `${operation.name} (${operation.form})` : operation.name, async () => {
      await operation.run(side)
    })
  }
  t.same(agent.all('invalid-response'), [])
  t.equal(agent.all('connected').length, 1)
})
