import { dirname } from 'node:path/posix'
import { create } from '@bufbuild/protobuf'
import { Code, KasError } from '../../../lib/errors.ts'
import {
  BlobService,
  CommitIsAncestorRequestSchema,
  CommitService,
  GetBlobsRequestSchema,
  type GetBlobsResponse,
  GetTreeEntriesRequestSchema,
  type TreeEntry as GitalyTreeEntry,
  TreeEntry_EntryType,
} from '../../../proto/gen/gitaly_pb.ts'
import { FileList } from '../file-list.ts'
import { type CommitId, isCommitId } from '../repositories.ts'
import { type BlobLimits, checkSizes, type Tree, TreeCount, type TreeFile, type TreeFiles } from '../tree.ts'
import type { AgentsFolder } from './agents-folder.ts'
import { failed, type GitalyCalls, isStatus } from './gitaly-calls.ts'

export interface GitalyTreeComponents {
  readonly calls: Pick<GitalyCalls, 'repository' | 'call'>
  readonly agentsFolder: Pick<AgentsFolder, 'entry'>
  /** @throws KasError REPOSITORY_FAILED if the commit does not exist */
  assurePresent(commit: CommitId, signal: AbortSignal): Promise<void>
}

/** file type in the mode of a git tree's entry */
const fileTypeMask = 0o170000
const regularFile = 0o100000
/** entries of a folder in which one path is searched */
const maxSearched = 1000

/** The commits of a repository, read by one GetTreeEntries and one GetBlobs. */
export class GitalyTree implements Tree {
  readonly #components: GitalyTreeComponents

  constructor(components: GitalyTreeComponents) {
    this.#components = components
  }

  async files(commit: CommitId, folder: string, signal: AbortSignal): Promise<TreeFiles> {
    const { calls, assurePresent } = this.#components
    const request = create(GetTreeEntriesRequestSchema, {
      repository: calls.repository,
      revision: Buffer.from(commit),
      path: Buffer.from(folder === '' ? '.' : folder),
      recursive: true,
      skipFlatPaths: true,
    })
    const files = new FileList()
    const count = new TreeCount(folder)
    try {
      for await (const { entries } of calls.call(CommitService.method.getTreeEntries, request, signal)) {
        for (const { type, mode, path, oid } of entries) {
          const isFile = isRegular({ type, mode })
          count.add(path, isFile)
          if (isFile && !isCommitId(oid)) throw malformed('GetTreeEntries', 'an entry without an object id')
          if (isFile) files.add(path, oid)
          else if (type === TreeEntry_EntryType.COMMIT) files.addLink(path, oid, true)
          else if (type === TreeEntry_EntryType.BLOB && isCommitId(oid)) files.addLink(path, oid, false)
        }
      }
    } catch (error) {
      if (!isStatus(error, Code.NOT_FOUND)) throw failed('GetTreeEntries', error)
    }
    if (files.length === 0) await assurePresent(commit, signal)
    return files
  }

  async contains(head: CommitId, commit: CommitId, signal: AbortSignal): Promise<boolean> {
    if (head === commit) return true
    const { calls } = this.#components
    const request = create(CommitIsAncestorRequestSchema, {
      repository: calls.repository,
      ancestorId: commit,
      childId: head,
    })
    let answer: boolean | undefined
    try {
      for await (const { value } of calls.call(CommitService.method.commitIsAncestor, request, signal)) answer = value
    } catch (error) {
      throw failed('CommitIsAncestor', error)
    }
    if (answer === undefined) throw malformed('CommitIsAncestor', 'no answer')
    return answer
  }

  async mayHave(commit: CommitId, path: string, signal: AbortSignal): Promise<boolean> {
    const { calls, agentsFolder, assurePresent } = this.#components
    const known = await agentsFolder.entry(commit, path, signal)
    if (known) return known.is === 'file'
    const request = create(GetTreeEntriesRequestSchema, {
      repository: calls.repository,
      revision: Buffer.from(commit),
      path: Buffer.from(dirname(path)),
      skipFlatPaths: true,
    })
    let searched = 0
    try {
      for await (const { entries } of calls.call(CommitService.method.getTreeEntries, request, signal)) {
        const found = entries.find((entry) => Buffer.from(entry.path).equals(Buffer.from(path)))
        if (found) return isRegular(found)
        searched += entries.length
        if (searched > maxSearched) return true
      }
    } catch (error) {
      if (!isStatus(error, Code.NOT_FOUND) && !isStatus(error, Code.INVALID_ARGUMENT)) {
        throw failed('GetTreeEntries', error)
      }
    }
    if (searched === 0) await assurePresent(commit, signal)
    return false
  }

  async blobs(
    commit: CommitId,
    files: readonly TreeFile[],
    limits: BlobLimits,
    signal: AbortSignal,
  ): Promise<readonly Uint8Array[]> {
    if (files.length === 0) return []
    const { calls } = this.#components
    const request = create(GetBlobsRequestSchema, {
      repository: calls.repository,
      revisionPaths: files.map(({ path }) => ({ revision: commit, path: Buffer.from(path) })),
      limit: BigInt(limits.maxFileBytes),
    })
    const reading = new BlobsReading(files, limits)
    try {
      for await (const message of calls.call(BlobService.method.getBlobs, request, signal)) reading.take(message)
    } catch (error) {
      throw failed('GetBlobs', error)
    }
    return reading.end()
  }
}

function isRegular({ type, mode }: Pick<GitalyTreeEntry, 'type' | 'mode'>): boolean {
  return type === TreeEntry_EntryType.BLOB && (mode & fileTypeMask) === regularFile
}

/** Assembles files from Gitaly's messages. The first message of each file names its object. */
class BlobsReading {
  readonly #files: readonly TreeFile[]
  readonly #limits: BlobLimits
  readonly #blobs: Uint8Array[] = []
  #totalBytes = 0
  /**
   * content of the current file, in a buffer of its own, which callers keep without a copy; undefined before the first
   */
  #content: Buffer | undefined
  #missing = 0

  constructor(files: readonly TreeFile[], limits: BlobLimits) {
    this.#files = files
    this.#limits = limits
  }

  /** @throws KasError MANIFESTS_REFUSED, REPOSITORY_FAILED */
  take({ oid, path, size, data }: GetBlobsResponse): void {
    if (path.length > 0 || oid !== '') this.#begin(oid, Number(size))
    if (!this.#content) throw malformed('GetBlobs', 'it begins in the middle')
    if (data.length > this.#missing) throw malformed('GetBlobs', 'a file is longer than it says')
    this.#content.set(data, this.#content.length - this.#missing)
    this.#missing -= data.length
  }

  /** @throws KasError REPOSITORY_FAILED if a file is missing */
  end(): readonly Uint8Array[] {
    this.#finish()
    if (this.#blobs.length !== this.#files.length) throw malformed('GetBlobs', 'it ends in the middle')
    return this.#blobs
  }

  #begin(oid: string, size: number): void {
    this.#finish()
    const file = this.#files[this.#blobs.length]
    if (!file || file.blob !== oid)
      throw malformed('GetBlobs', `${file?.path ?? 'what was not asked for'} is not there`)
    if (size < 0) throw malformed('GetBlobs', `${file.path} has ${size} bytes`)
    this.#totalBytes += size
    checkSizes(file, { bytes: size, totalBytes: this.#totalBytes }, this.#limits)
    this.#content = Buffer.allocUnsafeSlow(size)
    this.#missing = size
  }

  #finish(): void {
    if (!this.#content) return
    if (this.#missing > 0) throw malformed('GetBlobs', 'a file is shorter than it says')
    this.#blobs.push(this.#content)
    this.#content = undefined
  }
}

function malformed(method: string, what: string): KasError {
  return new KasError({ code: 'REPOSITORY_FAILED', detail: `Gitaly's ${method}: ${what}` })
}
