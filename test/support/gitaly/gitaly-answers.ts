import { join } from 'node:path'
import { create } from '@bufbuild/protobuf'
import { status } from '@grpc/grpc-js'
import {
  type CommitIsAncestorRequest,
  type CommitIsAncestorResponse,
  CommitIsAncestorResponseSchema,
  type GetBlobsRequest,
  type GetBlobsResponse,
  GetBlobsResponseSchema,
  type GetTreeEntriesRequest,
  type GetTreeEntriesResponse,
  GetTreeEntriesResponseSchema,
  type InfoRefsRequest,
  type InfoRefsResponse,
  InfoRefsResponseSchema,
  type Repository,
  TreeEntry_EntryType,
  type TreeEntryRequest,
  type TreeEntryResponse,
  TreeEntryResponse_ObjectType,
  TreeEntryResponseSchema,
} from '../../../src/proto/gen/gitaly_pb.ts'
import { BareGit } from './bare-git.ts'
import type { GitalyVersionTraits } from './gitaly-versions.ts'

/** Gitaly's answers as doc/reference/tunnel-protocol.md 1.20 has them, from bare repositories. */

export class GitalyRefusal extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

export interface GitalyGround {
  /** folder of the repositories of the storage `default` */
  readonly folder: string
  readonly traits: GitalyVersionTraits
  /** bytes of data in one message */
  readonly chunkBytes: number
}

export async function* infoRefs(request: InfoRefsRequest, ground: GitalyGround): AsyncGenerator<InfoRefsResponse> {
  const git = await repositoryOf(request.repository, ground)
  const service = '# service=git-upload-pack\n'
  const head = `${(service.length + 4).toString(16).padStart(4, '0')}${service}0000`
  const bytes = Buffer.concat([Buffer.from(head), await git.advertisement()])
  for (const data of chunks(bytes, ground.chunkBytes)) yield create(InfoRefsResponseSchema, { data })
}

export async function* treeEntry(request: TreeEntryRequest, ground: GitalyGround): AsyncGenerator<TreeEntryResponse> {
  const git = await repositoryOf(request.repository, ground)
  const [revision, path] = [text(request.revision), text(request.path)]
  if (revision === '') throw new GitalyRefusal(status.INVALID_ARGUMENT, 'empty revision')
  if (path === '') throw new GitalyRefusal(status.INVALID_ARGUMENT, 'empty Path')
  const known = (await git.hasCommit(revision)) && !path.startsWith('../')
  const [entry] = known ? await git.entries(revision, path) : []
  if (!entry) throw new GitalyRefusal(status.NOT_FOUND, ground.traits.absentText)
  const mode = Number.parseInt(entry.mode, 8)
  if (entry.type === 'commit') {
    return yield create(TreeEntryResponseSchema, { type: TreeEntryResponse_ObjectType.COMMIT, mode, oid: entry.oid })
  }
  if (entry.type === 'tree') {
    return yield create(TreeEntryResponseSchema, { type: TreeEntryResponse_ObjectType.TREE, mode, oid: entry.oid })
  }
  const blob = await git.blob(entry.oid)
  const size = BigInt(blob.length)
  if (request.maxSize > 0n && size > request.maxSize) {
    const message = `object size (${size}) is bigger than the maximum allowed size (${request.maxSize})`
    throw new GitalyRefusal(status.FAILED_PRECONDITION, message)
  }
  const sent = request.limit > 0n && size > request.limit ? blob.subarray(0, Number(request.limit)) : blob
  const [first = Buffer.alloc(0), ...rest] = chunks(sent, ground.chunkBytes)
  const type = TreeEntryResponse_ObjectType.BLOB
  yield create(TreeEntryResponseSchema, { type, mode, oid: entry.oid, size, data: first })
  for (const data of rest) yield create(TreeEntryResponseSchema, { data })
}

const entryTypes: Readonly<Record<string, TreeEntry_EntryType>> = {
  blob: TreeEntry_EntryType.BLOB,
  tree: TreeEntry_EntryType.TREE,
  commit: TreeEntry_EntryType.COMMIT,
}

/** entries of one message, as Gitaly has it */
const maxEntries = 100

export async function* treeEntries(
  request: GetTreeEntriesRequest,
  ground: GitalyGround,
): AsyncGenerator<GetTreeEntriesResponse> {
  const git = await repositoryOf(request.repository, ground)
  const [revision, path] = [text(request.revision), text(request.path)]
  if (revision === '') throw new GitalyRefusal(status.INVALID_ARGUMENT, 'empty revision')
  if (path === '') throw new GitalyRefusal(status.INVALID_ARGUMENT, 'empty Path')
  const isThere = await git.hasCommit(revision)
  const found = isThere ? await git.entries(revision, path === '.' ? path : `${path}/`, request) : []
  const isEmptyRoot = isThere && path === '.'
  if (found.length === 0 && !isEmptyRoot && ground.traits.absentCommit === 'invalid_argument') {
    const code = request.recursive ? status.NOT_FOUND : status.INVALID_ARGUMENT
    throw new GitalyRefusal(code, 'invalid revision or path')
  }
  const entries = found.map((entry) => ({
    oid: entry.oid,
    path: Buffer.from(entry.path),
    type: entryTypes[entry.type] ?? TreeEntry_EntryType.BLOB,
    mode: Number.parseInt(entry.mode, 8),
    commitOid: revision,
  }))
  for (let at = 0; at < entries.length; at += maxEntries) {
    yield create(GetTreeEntriesResponseSchema, { entries: entries.slice(at, at + maxEntries) })
  }
}

export async function* commitIsAncestor(
  { repository, ancestorId, childId }: CommitIsAncestorRequest,
  ground: GitalyGround,
): AsyncGenerator<CommitIsAncestorResponse> {
  const git = await repositoryOf(repository, ground)
  if (ancestorId === '') throw new GitalyRefusal(status.INVALID_ARGUMENT, 'empty ancestor sha')
  if (childId === '') throw new GitalyRefusal(status.INVALID_ARGUMENT, 'empty child sha')
  yield create(CommitIsAncestorResponseSchema, { value: await git.isAncestor(ancestorId, childId) })
}

export async function* blobs(request: GetBlobsRequest, ground: GitalyGround): AsyncGenerator<GetBlobsResponse> {
  const git = await repositoryOf(request.repository, ground)
  if (request.revisionPaths.length === 0) throw new GitalyRefusal(status.INVALID_ARGUMENT, 'empty RevisionPaths')
  for (const { revision, path } of request.revisionPaths) {
    if (revision === '') throw new GitalyRefusal(status.INVALID_ARGUMENT, 'empty revision')
    const [entry] = (await git.hasCommit(revision)) ? await git.entries(revision, text(path)) : []
    if (entry?.type !== 'blob') {
      yield create(GetBlobsResponseSchema, { path })
      continue
    }
    const blob = await git.blob(entry.oid)
    const sent = request.limit >= 0n && blob.length > request.limit ? blob.subarray(0, Number(request.limit)) : blob
    const [data = Buffer.alloc(0), ...rest] = chunks(sent, ground.chunkBytes)
    const head = { path, oid: entry.oid, mode: Number.parseInt(entry.mode, 8), size: BigInt(blob.length) }
    yield create(GetBlobsResponseSchema, { ...head, data })
    for (const more of rest) yield create(GetBlobsResponseSchema, { data: more })
  }
}

async function repositoryOf(repository: Repository | undefined, ground: GitalyGround): Promise<BareGit> {
  if (!repository) throw new GitalyRefusal(status.INVALID_ARGUMENT, 'repository not set')
  const { storageName, relativePath } = repository
  if (storageName !== 'default') throw new GitalyRefusal(status.INVALID_ARGUMENT, 'storage name not found')
  const git = new BareGit(join(ground.folder, relativePath))
  if (!(await git.exists())) throw new GitalyRefusal(status.NOT_FOUND, ground.traits.absentRepositoryText)
  return git
}

function chunks(bytes: Buffer, size: number): Buffer[] {
  const count = Math.ceil(bytes.length / size)
  return Array.from({ length: count }, (_, i) => bytes.subarray(i * size, (i + 1) * size))
}

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString('utf8')
