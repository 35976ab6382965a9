import type { ApiClient, KubernetesObject } from '../../../dev/control-plane/api-client.ts'
import { delay } from '../../../src/lib/signals.ts'
import { insisted } from './insisted.ts'

/** Longest time without progress: with 20,000 Pods kwok rests for two minutes and more. ms */
const stallMs = 600_000
const againMs = 1000

/** Resolves when all Pods of the namespaces run. @throws Error if no more run than `stallMs` ago */
export async function untilPodsRun(
  admin: ApiClient,
  namespaces: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const wanted = new Set(namespaces)
  let before = -1
  let end = 0
  for (;;) {
    const { items } = await insisted(() => admin.get('/apis/apps/v1/deployments'), signal)
    const own = (items as KubernetesObject[]).filter(({ metadata }) => wanted.has(metadata.namespace))
    const isReady = ({ spec, status }: KubernetesObject) => status.readyReplicas === spec.replicas
    const missing = own.filter((one) => !isReady(one))
    if (own.length === namespaces.length && missing.length === 0) return
    const running = own.reduce((sum, { status }) => sum + (status.readyReplicas ?? 0), 0)
    if (running !== before) end = performance.now() + stallMs
    before = running
    if (performance.now() > end) {
      const names = missing.map(({ metadata }) => metadata.namespace).join(', ')
      throw new Error(`${running} Pods run, for ${stallMs} ms as many; not all do in ${names}`)
    }
    await delay(againMs, signal)
  }
}
