import { delay } from '../../src/lib/signals.ts'
import type { Kube } from './kube.ts'

/** Objects that scenes need in the cluster: a namespace, ConfigMaps, a pod. */

const askAgainMs = 100

/** Resolves when the namespace has the cluster's own objects: no later event comes of them. */
export async function createNamespace(kube: Kube, name: string, signal: AbortSignal): Promise<void> {
  await kube.create('/api/v1/namespaces', { metadata: { name } })
  const path = `/api/v1/namespaces/${name}`
  for (const own of ['configmaps/kube-root-ca.crt', 'serviceaccounts/default']) {
    while ((await kube.ask(`${path}/${own}`, { signal })).status !== 200) await delay(askAgainMs, signal)
  }
}

export function createConfigMap(kube: Kube, namespace: string, name: string): Promise<void> {
  return kube.create(`/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name }, data: { made: 'by soak' } })
}

/** Resolves when the pod runs. */
export async function createPod(kube: Kube, namespace: string, name: string, signal: AbortSignal): Promise<void> {
  const pods = `/api/v1/namespaces/${namespace}/pods`
  await kube.create(pods, { metadata: { name }, spec: { containers: [{ name: 'main', image: 'none' }] } })
  for (;;) {
    const { body } = await kube.ask(`${pods}/${name}`, { signal })
    if (JSON.parse(body).status?.phase === 'Running') return
    await delay(askAgainMs, signal)
  }
}
