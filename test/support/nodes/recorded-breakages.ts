import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import type { Processes } from '../processes.ts'

/** The breakages of the shared situations that a kubelet has recorded, so that they can be played again. */

/** Registry of the first node that asks for a password. */
const privateRegistry = '127.0.0.1:5001'

/** A breakage, and the cause that everybody must get. */
export interface RecordedBreakage {
  readonly name: string
  /** manifest of the object that breaks, without a namespace */
  readonly manifest: KubernetesObject
  readonly reason: string
  /** beginning of the culprit's name */
  readonly culprit: string
}

/** Breakages that show themselves within some seconds. */
const soon = ['root-refused', 'command-not-found', 'job-failed-for-good']

/** @param count - above 3: all twelve. @param vectors - folder of the shared situations */
export async function recordedBreakages(count: number, vectors: string): Promise<readonly RecordedBreakage[]> {
  const all: KubernetesObject[] = JSON.parse(await readFile(join(vectors, 'causes-kubelet.json'), 'utf8'))
  const chosen = count > soon.length ? all : all.filter(({ name }) => soon.includes(name))
  return chosen.map(({ name, objects, expect: [expected] }) => {
    const kind = expected.root.kind.split('/').at(-1)
    const root = objects.find((one: KubernetesObject) => one.kind === kind && one.metadata.name === expected.root.name)
    const { name: culprit = `${expected.root.name}-` } = expected.culprit
    return { name, manifest: manifestOf(root), reason: expected.reason, culprit }
  })
}

/** Starts the registry whose images need a password. */
export async function startPrivateRegistry(processes: Processes): Promise<void> {
  const script = `echo '/:user:secret' > httpd.conf; exec busybox httpd -f -p ${privateRegistry} -h . -c httpd.conf`
  await processes.spawn({ command: 'nsenter', args: ['--net=/run/netns/n1', 'sh', '-c', script] })
}

/** Returns an object as somebody writes it, without what the cluster has added. */
function manifestOf({ apiVersion, kind, metadata, spec }: KubernetesObject): KubernetesObject {
  const { template, backoffLimit } = spec
  const written = template ? { backoffLimit, template: { spec: podSpecOf(template.spec) } } : podSpecOf(spec)
  return { apiVersion, kind, metadata: { name: metadata.name }, spec: written }
}

function podSpecOf(spec: KubernetesObject): KubernetesObject {
  const isOwn = ({ name }: { name: string }) => !name.startsWith('kube-api-access')
  const { containers, initContainers, volumes = [], restartPolicy, activeDeadlineSeconds, securityContext } = spec
  const withoutToken = (all: readonly KubernetesObject[] = []) =>
    all.map((one) => ({
      ...one,
      image: one.image.replace('localhost:5000', privateRegistry),
      volumeMounts: (one.volumeMounts ?? []).filter(isOwn),
    }))
  return {
    terminationGracePeriodSeconds: 1,
    restartPolicy,
    securityContext,
    ...(activeDeadlineSeconds && { activeDeadlineSeconds }),
    ...(initContainers && { initContainers: withoutToken(initContainers) }),
    containers: withoutToken(containers),
    volumes: volumes.filter(isOwn),
  }
}
