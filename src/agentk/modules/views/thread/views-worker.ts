import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { systemClock } from '../../../../lib/clock.ts'
import { createLogger } from '../../../../lib/log.ts'
import { flags, setFlags } from '../../../../lib/v8.ts'
import { ApiClient } from '../../../cluster/api-client.ts'
import { ClusterAccess } from '../../../cluster/cluster-access.ts'
import { Picture } from './picture.ts'
import type { ThreadAnswer, ThreadRequest, ThreadSettings } from './thread-messages.ts'

/** What passes calls goes first. */
const niceness = 5

/** What `ViewsThread` runs. */
const { cluster, watched, logLevel, ...settings } = workerData as ThreadSettings
setFlags(...flags.smallHeapGrowth)
const log = createLogger({ level: logLevel }).child({ mod_name: 'views' })
try {
  // on Linux it is this thread's alone, elsewhere the process's
  if (process.platform === 'linux') setPriority(niceness)
} catch (error) {
  log.warn({ error }, 'Views run at the priority of calls')
}
const own = new ApiClient(new ClusterAccess(cluster))
const watching = new ApiClient(new ClusterAccess(watched))
const answer = (message: ThreadAnswer) => parentPort?.postMessage(message)
const picture = new Picture({ own, watching, answer, log, clock: systemClock, random: Math.random }, settings)
parentPort?.on('message', (request: ThreadRequest) => picture.asked(request))
void picture.run(new AbortController().signal)
