import { parentPort, workerData } from 'node:worker_threads'
import { monotonicClock, systemClock } from '../../../../lib/clock.ts'
import { createLogger } from '../../../../lib/log.ts'
import { lowerPriority } from '../../../../lib/low-priority.ts'
import { flags, setFlags } from '../../../../lib/v8.ts'
import { ApiClient, serverVersionPath } from '../../../cluster/api-client.ts'
import { ClusterAccess } from '../../../cluster/cluster-access.ts'
import { ServerClock } from '../../../cluster/server-clock.ts'
import { ClusterCache } from './cluster-cache.ts'
import type { ThreadAnswer, ThreadRequest, ThreadSettings } from './thread-messages.ts'

/** Timeout of the first request, which sets the clock; answers to lists set it, too. ms */
const firstDateMs = 1000

/** Program of the thread that `ViewsThread` runs. */
const { cluster, watched, logLevel, ...settings } = workerData as ThreadSettings
setFlags(...flags.smallHeapGrowth)
const log = createLogger({ level: logLevel }).child({ mod_name: 'views' })
const answer = (message: ThreadAnswer) => parentPort?.postMessage(message)
const refused = lowerPriority()
if (refused !== undefined) answer({ kind: 'priority', refused })
const clock = new ServerClock(systemClock)
const onDate = (date: string, waitedMs: number) => clock.answered(date, waitedMs)
const own = new ApiClient(new ClusterAccess(cluster), { onDate })
const watching = new ApiClient(new ClusterAccess(watched), { onDate })
// first of all, because timers wait longer when a clock is set back
await own.json('GET', serverVersionPath, undefined, AbortSignal.timeout(firstDateMs)).catch(() => undefined)
const components = { own, watching, answer, log, clock, pace: monotonicClock, random: Math.random }
const cache = new ClusterCache(components, settings)
parentPort?.on('message', (request: ThreadRequest) => cache.asked(request))
void cache.run(new AbortController().signal)
