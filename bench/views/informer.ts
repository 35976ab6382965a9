/** client-node's informers of the four kinds that agentk follows. Its argument is a kubeconfig. */
import { AppsV1Api, CoreV1Api, KubeConfig, type KubernetesObject, makeInformer } from '@kubernetes/client-node'

const config = new KubeConfig()
config.loadFromFile(process.argv[2] ?? '')
const core = config.makeApiClient(CoreV1Api)
const apps = config.makeApiClient(AppsV1Api)
type Lister = () => Promise<{ items: KubernetesObject[] }>
const kinds: readonly (readonly [path: string, list: Lister])[] = [
  ['/api/v1/pods', () => core.listPodForAllNamespaces()],
  ['/api/v1/configmaps', () => core.listConfigMapForAllNamespaces()],
  ['/apis/apps/v1/deployments', () => apps.listDeploymentForAllNamespaces()],
  ['/apis/apps/v1/replicasets', () => apps.listReplicaSetForAllNamespaces()],
]

process.on('disconnect', () => process.exit())
await Promise.all(kinds.map(([path, list]) => makeInformer(config, path, list as never).start()))
process.send?.('listed')
