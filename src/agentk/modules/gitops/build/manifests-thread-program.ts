import { getHeapStatistics } from 'node:v8'
import { parentPort } from 'node:worker_threads'
import { lowerPriority } from '../../../../lib/low-priority.ts'
import type { RepositoryFile } from '../manifests/manifest.ts'
import { type ManifestsPart, manifestParts } from '../manifests/read-manifests.ts'
import { maxDocuments } from '../manifests/round-budget.ts'
import { checkCommit, hooksOf, placeOf } from '../render/check-commit.ts'
import { templateFiles } from '../render/helm.ts'
import type { ReadJob, ThreadAnswer, ThreadJob, ThreadRequest } from './manifests-thread.ts'

type Chart = NonNullable<ReadJob['chart']>

/** Program of `ManifestsThread`. It sends a part only on request: parts sent together are read together. */
let parts: Iterator<ManifestsPart> = [][Symbol.iterator]()
let result: unknown

const priorityRefused = lowerPriority()
if (priorityRefused !== undefined) answer({ kind: 'priority', refused: priorityRefused })

parentPort?.on('message', (request: ThreadRequest) => {
  if (request.kind === 'job') {
    parts = [][Symbol.iterator]()
    result = done(request.job)
  }
  const part = parts.next()
  if (!part.done) return answer({ kind: 'part', part: part.value }, [part.value.json.buffer])
  answer({ kind: 'done', result, heapBytes: getHeapStatistics().total_heap_size })
  result = undefined
})

function done(job: ThreadJob): unknown {
  if (job.kind === 'check') return checkCommit(job)
  if (job.kind === 'place') return placeOf(job)
  if (job.kind === 'hooks') return hooksOf(job)
  const { chart } = job
  const files = chart ? templatesOf(job.files, chart) : job.files
  if (!files) {
    const text = `the chart prints more than ${maxDocuments} documents`
    return { problems: [{ file: chart?.chart ?? '', line: 0, text }] }
  }
  const read = manifestParts({ ...job, files })
  parts = read.parts
  return { problems: read.problems }
}

/** Splits the output of helm into files. @returns undefined: there are too many */
function templatesOf(files: readonly RepositoryFile[], chart: Chart): RepositoryFile[] | undefined {
  const templates = files.map(({ data }) => templateFiles(data, chart))
  return templates.every((some) => some !== undefined) ? templates.flat() : undefined
}

function answer(message: ThreadAnswer, transfer: ArrayBuffer[] = []): void {
  parentPort?.postMessage(message, transfer)
}
