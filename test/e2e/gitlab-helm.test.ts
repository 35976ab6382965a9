import { join } from 'node:path'
import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { Kubectl } from '../support/kubectl.ts'
import { assets } from '../support/kubectl-stack.ts'
import { manifestsFolder } from '../support/manifests.ts'
import { Processes } from '../support/processes.ts'

/** The manifests beside GitLab's chart are what an API server takes; test/ground/gitlab-packages.test.ts reads them. */

const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const files = { 'cluster.yaml': 3, 'network-policy.yaml': 1 }

t.test('manifests for the chart at a real API server', { skip, timeout: 90_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig: controlPlane.kubeconfig, namespace: 'gitlab' })
  await kubectl.ok(['create', 'namespace', 'gitlab'])
  for (const [file, count] of Object.entries(files)) {
    const path = join(manifestsFolder, '../gitlab-helm', file)
    const said = await kubectl.ok(['apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', path])
    t.equal(said.match(/serverside-applied/g)?.length, count, said)
  }
})
