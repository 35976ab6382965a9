import type { Readable } from 'node:stream'
import { create } from '@bufbuild/protobuf'
import { PreviewEndSchema } from '../../../../../proto/gen/gitops_preview_pb.ts'
import { askKas, KasRefused } from '../../../../command/ask-kas.ts'
import { BadAnswer } from '../../../../command/bad-answer.ts'
import type { Endpoint } from '../../../../command/endpoint.ts'
import { placeText, Unreached } from '../../../../command/reach/unreached.ts'
import { readNdjson } from '../../preview/ndjson-reader.ts'
import type { Preview } from '../../preview/preview.ts'
import { packedFiles } from './packed-files.ts'
import type { WorkTree } from './work-tree.ts'

/** Limit of one preview, with its upload and its turn at the agent. ms */
const previewMs = 300_000

/** Media type of an answer with a preview, which has another status than 200 if it is not all good. */
const resultType = 'application/x-ndjson'

/** Status of an answer that refuses the files, such as too many: a commit with them is refused too. */
const refusedStatus = 422

/** Status of a proxy that takes no body of this length. */
const tooLargeStatus = 413

export interface PreviewQuestion {
  /** id of the source */
  readonly source: string
  /** live values are shown, of objects that the caller may get */
  readonly values: boolean
}

/**
 * Asks kas what the files would change in the cluster.
 *
 * @returns the preview; also if kas refuses the files, as it would refuse the commit
 * @throws Unreached, BadAnswer, KasRefused, Error: a file cannot be read, or kas is too old
 */
export async function askPreview(endpoint: Endpoint, tree: WorkTree, question: PreviewQuestion): Promise<Preview> {
  const { source, values } = question
  const path = `/gitops/diff?source=${encodeURIComponent(source)}&format=ndjson${values ? '&values=true' : ''}`
  let unread: Error | undefined
  const open = (): Readable =>
    packedFiles(tree).on('error', (error) => {
      unread = error
    })
  const upload = { mediaType: 'application/x-tar', open }
  const request = { method: 'POST', path, accept: resultType, resultType, upload, timeoutMs: previewMs } as const
  let text: string
  try {
    text = await askKas(endpoint, request)
  } catch (cause) {
    if (unread) throw unread
    if (cause instanceof KasRefused && cause.status === refusedStatus) return refusedPreview(source, cause.message)
    throw isOlder(cause) ? new Error(olderText(endpoint), { cause }) : cause
  }
  return readPreview(text, source)
}

/** True for the answer of a kas without previews: it knows another method of the path alone, or passes the path on. */
function isOlder(cause: unknown): boolean {
  return (
    (cause instanceof Unreached && cause.kind === 'server' && cause.status !== tooLargeStatus) ||
    (cause instanceof KasRefused && cause.status === 405)
  )
}

function olderText(endpoint: Endpoint): string {
  return `kas at ${placeText(endpoint)} is older than this command, and makes no previews: update kas`
}

function refusedPreview(source: string, text: string): Preview {
  return { source, objects: [], end: create(PreviewEndSchema, { refusal: { text } }) }
}

/** @throws BadAnswer */
function readPreview(text: string, source: string): Preview {
  let preview: Preview
  try {
    preview = readNdjson(text)
  } catch (cause) {
    throw new BadAnswer((cause as Error).message, { cause })
  }
  if (preview.source !== source) throw new BadAnswer('it is about another source')
  return preview
}
