import { KasError } from '../../../lib/errors.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import { type GitRefCF, ObjectsToSynchronizeRequestSchema } from '../../../proto/gen/gitops_pb.ts'
import { Reader } from '../../../proto/wire/wire.ts'
import type { AgentCall } from '../../agent-method.ts'
import { isCommitId } from '../../repositories/repositories.ts'
import { checkPathCount, type FileChoice, readPaths } from './chosen-files.ts'

/**
 * Known blobs of one request: more than the highest limit of a round. Blobs beyond the round's limit are sent again.
 */
const maxKnownBlobs = 10_000

/** Fields for the project, the ref and the commit, and for those of later versions of agents. */
const maxOtherFields = 100

/** A project's full path, in characters. */
const maxProjectLength = 1024

/** Names of refs that git permits, without the first part. */
const refName = /^(?![/.-])(?!.*(?:\.\.|\/\.|\/\/|@\{))[^\p{Cc} ~^:?*[\\]{1,250}(?<![/.])$/u

/** Request of one stream of an agent. */
export interface ObjectsRequest {
  /** full path, or number */
  readonly project: string
  readonly ref: string | undefined
  /** commit that the agent has; empty: none */
  readonly commit: string
  /** branch of that commit, as the agent knows it; empty: none */
  readonly branch: string
  readonly choice: FileChoice
  /** object ids, in hex */
  readonly known: ReadonlySet<string>
}

/** @throws KasError INVALID_MESSAGE, REF_NOT_FOUND, MANIFESTS_REFUSED */
export async function readRequest(
  call: Pick<AgentCall, 'messages'>,
  limits: { readonly maxPaths: number; readonly maxFiles: number },
): Promise<ObjectsRequest> {
  for await (const bytes of call.messages) {
    checkCounts(bytes, limits.maxPaths) // before the message is decoded
    const request = decodeMessage(ObjectsToSynchronizeRequestSchema, bytes)
    if (request.projectId === '') throw invalid('project_id is required')
    if (request.projectId.length > maxProjectLength) throw invalid('project_id is too long')
    return {
      project: request.projectId,
      ref: refOf(request.ref),
      commit: request.commitId,
      branch: request.knownBranch,
      choice: readPaths(request.paths),
      // files of blobs beyond the limit, which was higher before, are sent again
      known: new Set(request.knownBlob.slice(0, limits.maxFiles).map((id) => Buffer.from(id).toString('hex'))),
    }
  }
  throw invalid('no request message')
}

/** Counts fields, up to the first one too many. @throws KasError INVALID_MESSAGE */
function checkCounts(bytes: Uint8Array, maxPaths: number): void {
  const { paths, knownBlob } = ObjectsToSynchronizeRequestSchema.field
  let [pathCount, blobCount, otherCount] = [0, 0, 0]
  const reader = new Reader(bytes)
  while (reader.next()) {
    if (reader.field === paths.number) pathCount += 1
    else if (reader.field === knownBlob.number) blobCount += 1
    else otherCount += 1
    if (blobCount > maxKnownBlobs) throw invalid(`more than ${maxKnownBlobs} known blobs`)
    if (otherCount > maxOtherFields) throw invalid(`more than ${maxOtherFields} fields beside paths and known blobs`)
  }
  checkPathCount(pathCount, maxPaths)
}

/** @throws KasError REF_NOT_FOUND for an invalid name */
function refOf(given: GitRefCF | undefined): string | undefined {
  const { ref } = given ?? {}
  if (!ref?.case || ref.value === '') return undefined
  if (ref.case === 'commit') {
    if (isCommitId(ref.value)) return ref.value
  } else if (refName.test(ref.value)) return `refs/${ref.case === 'tag' ? 'tags' : 'heads'}/${ref.value}`
  throw new KasError({ code: 'REF_NOT_FOUND', ref: ref.value.slice(0, 250) })
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}
