import { setPriority } from 'node:os'
import { getHeapStatistics } from 'node:v8'
import { parentPort } from 'node:worker_threads'
import { checkCommit, placeOf } from '../render/check-commit.ts'
import { templateFiles } from '../render/helm.ts'
import type { ThreadAnswer, ThreadJob, ThreadRequest } from './manifests-thread.ts'
import { type ManifestsPart, manifestParts } from './read-manifests.ts'

/** What `ManifestsThread` runs: it is asked for each part, as those that come together are read together. */
let parts: Iterator<ManifestsPart> = [][Symbol.iterator]()
let result: unknown

/** What passes calls goes first. On Linux it is this thread's alone, elsewhere the process's. */
const niceness = 5
if (process.platform === 'linux') setPriority(niceness)

parentPort?.on('message', (request: ThreadRequest) => {
  if (request.is === 'job') {
    parts = [][Symbol.iterator]()
    result = done(request.job)
  }
  const part = parts.next()
  if (!part.done) return answer({ is: 'part', part: part.value }, [part.value.json.buffer])
  answer({ is: 'done', result, heapBytes: getHeapStatistics().total_heap_size })
  result = undefined
})

function done(job: ThreadJob): unknown {
  if (job.is === 'check') return checkCommit(job)
  if (job.is === 'place') return placeOf(job)
  const { chart } = job
  const files = chart ? job.files.flatMap(({ data }) => templateFiles(data, chart)) : job.files
  const read = manifestParts({ ...job, files })
  parts = read.parts
  return { problems: read.problems }
}

function answer(message: ThreadAnswer, transfer: ArrayBuffer[] = []): void {
  parentPort?.postMessage(message, transfer)
}
