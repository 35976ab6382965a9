import t from 'tap'
import { configurationIn } from '../../../../../../src/agentk/modules/gitops/prune/used-configuration.ts'

t.test('ConfigMaps and Secrets are found wherever a Pod names them', async (t) => {
  const from = (name: string) => ({
    envFrom: [{ configMapRef: { name: `${name}-map` } }, { secretRef: { name: `${name}-secret` } }],
    env: [
      { name: 'A', value: 'configMap' },
      { name: 'B', valueFrom: { configMapKeyRef: { name: `${name}-key`, key: 'a' } } },
      { name: 'C', valueFrom: { secretKeyRef: { name: `${name}-secret-key`, key: 'a' } } },
    ],
  })
  const spec = {
    containers: [from('own')],
    initContainers: [from('init')],
    ephemeralContainers: [from('ephemeral')],
    imagePullSecrets: [{ name: 'pull' }, {}],
    volumes: [
      { name: 'a', configMap: { name: 'volume-map' } },
      { name: 'b', secret: { secretName: 'volume-secret' } },
      { name: 'c', projected: { sources: [{ configMap: { name: 'part-map' } }, { secret: { name: 'part-secret' } }] } },
      { name: 'd', csi: { driver: 'x', nodePublishSecretRef: { name: 'csi' } } },
      { name: 'e', azureFile: { secretName: 'azure' } },
      { name: 'f', rbd: { secretRef: { name: 'rbd' } } },
      { name: 'g', persistentVolumeClaim: { claimName: 'claim' } },
    ],
    serviceAccountName: 'account',
  }
  const containers = ['own', 'init', 'ephemeral'].flatMap((name) => [
    `ConfigMap/${name}-map`,
    `Secret/${name}-secret`,
    `ConfigMap/${name}-key`,
    `Secret/${name}-secret-key`,
  ])
  const volumes = ['ConfigMap/volume-map', 'Secret/volume-secret', 'ConfigMap/part-map', 'Secret/part-secret']
  const others = ['Secret/pull', 'Secret/csi', 'Secret/azure', 'Secret/rbd']
  t.strictSame([...configurationIn(spec)].sort(), [...containers, ...volumes, ...others].sort())
  for (const none of [undefined, null, 'text', [], { volumes: [null, { configMap: null, secret: 'x' }] }]) {
    t.strictSame([...configurationIn(none)], [])
  }
})
