import { delay } from '../../src/lib/signals.ts'
import type { Findings, Stage } from './scene.ts'
import { Watched } from './watched.ts'
import { createConfigMap, createNamespace } from './workplace.ts'

export interface WatchOptions {
  /** time without any event */
  readonly minutes: number
}

/** far more than an event takes, and far less than kas takes to find a connection dead */
const deliveryTimeoutMs = 5_000
const namespace = 'soak-watch'

/** A watch without events for minutes still delivers the next event. */
export async function watch({ kube, say, signal }: Stage, { minutes }: WatchOptions): Promise<Findings> {
  await createNamespace(kube, namespace, signal)
  // otherwise the API server ends a watch by itself after 30 to 60 minutes
  const seconds = Math.ceil(minutes * 60) + 600
  const path = `/api/v1/namespaces/${namespace}/configmaps?watch=1&timeoutSeconds=${seconds}`
  const watched = await Watched.open(kube, path)
  await watched.sees('kube-root-ca.crt', AbortSignal.any([signal, AbortSignal.timeout(deliveryTimeoutMs)]))
  say(`a watch is open; now ${minutes} minutes without an event`)
  await delay(minutes * 60_000, signal)
  const ended = watched.broken
  const began = performance.now()
  await createConfigMap(kube, namespace, 'news')
  const failure = await watched
    .sees('news', AbortSignal.any([signal, AbortSignal.timeout(deliveryTimeoutMs)]))
    .then(() => undefined)
    .catch((error: Error) => `the event did not come: ${error.message}`)
  const ms = performance.now() - began
  watched.close()
  return {
    figures: [
      `idle for ${minutes} minutes; the watch ended meanwhile: ${ended ? 'yes' : 'no'}`,
      `from the request that creates an object to the watch's event: ${ms.toFixed(0)} ms`,
    ],
    failures: failure ? [failure] : [],
  }
}
