import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { getObjectsMethod } from '../../../src/kas/modules/gitops/objects-to-synchronize.ts'
import {
  ObjectsToSynchronizeRequestSchema,
  ObjectsToSynchronizeResponseSchema,
} from '../../../src/proto/gen/gitops_pb.ts'
import type { FakeAgent } from '../../support/fake-agent.ts'

type RequestInit = MessageInitShape<typeof ObjectsToSynchronizeRequestSchema>

export interface Round {
  readonly commitId: string
  readonly projectId: bigint
  /** contents by path, in order of arrival */
  readonly files: ReadonlyMap<string, Buffer>
  /** paths of files that came without data, because the agent has them */
  readonly known: readonly string[]
  /** object ids by path, in hex */
  readonly blobs: ReadonlyMap<string, string>
  /** size of the largest piece, bytes */
  readonly largest: number
}

/** Messages that may follow each message (doc/reference/tunnel-protocol.md 1.10). */
const followers: Readonly<Record<string, readonly string[]>> = {
  start: ['header', 'end'],
  header: ['object', 'trailer'],
  object: ['object', 'trailer'],
  trailer: ['end'],
}

/** Requests for one project, as agents of these releases send them. */
export const stockRequests = {
  '13.8': (project: string, commitId = ''): RequestInit => ({
    projectId: project,
    commitId,
    paths: [{ path: { case: 'glob', value: '**/*.{yaml,yml,json}' } }],
  }),
  '15.0': (project: string, commitId = ''): RequestInit => ({
    projectId: project,
    commitId,
    paths: [{ path: { case: 'glob', value: '/manifests/**/*.yaml' } }],
  }),
  '16.5': (project: string, commitId = ''): RequestInit => ({
    projectId: project,
    commitId,
    paths: [
      { path: { case: 'glob', value: 'manifests/**/*.yaml' } },
      { path: { case: 'file', value: 'manifests/x.yaml' } },
    ],
    ref: { ref: { case: 'branch', value: 'main' } },
  }),
} as const

export type StockRelease = keyof typeof stockRequests

/**
 * Asks for one round, as stock agentk's object watcher does. A message out of order is an error.
 *
 * @returns undefined: the stream ended with OK before a header, as a stream that is too old does
 */
export async function synchronize(agent: FakeAgent, request: RequestInit, token = 'glagent-prod') {
  return await openSynchronize(agent, request, token).round()
}

export function openSynchronize(agent: FakeAgent, request: RequestInit, token = 'glagent-prod') {
  const stream = agent.session.open({ method: getObjectsMethod, metadata: { authorization: [`Bearer ${token}`] } })
  const message = create(ObjectsToSynchronizeRequestSchema, request)
  void stream.send(toBinary(ObjectsToSynchronizeRequestSchema, message))
  stream.end()
  const round = async (): Promise<Round | undefined> => {
    let state = 'start'
    let head = { commitId: '', projectId: 0n }
    let largest = 0
    const pieces = new Map<string, Buffer[]>()
    const known: string[] = []
    const blobs = new Map<string, string>()
    let last = ''
    for await (const bytes of stream.messages) {
      const { message: each } = fromBinary(ObjectsToSynchronizeResponseSchema, bytes)
      const next = String(each.case)
      if (!followers[state]?.includes(next)) throw new Error(`${next} after ${state}`)
      state = next
      if (each.case === 'header') head = each.value
      if (each.case !== 'object') continue
      const { source, data, blob } = each.value
      largest = Math.max(largest, data.length)
      if (source !== last && pieces.has(source)) throw new Error(`${source} comes twice`)
      last = source
      if (each.value.known) known.push(source)
      else pieces.set(source, [...(pieces.get(source) ?? []), Buffer.from(data)])
      if (blob.length > 0) blobs.set(source, Buffer.from(blob).toString('hex'))
    }
    const { error } = await stream.done
    if (error) throw error
    if (!followers[state]?.includes('end')) throw new Error(`it ends after ${state}`)
    if (state === 'start') return undefined
    const files = new Map(Array.from(pieces, ([path, parts]) => [path, Buffer.concat(parts)]))
    const { commitId, projectId } = head
    return { commitId, projectId, files, known, blobs, largest }
  }
  return { stream, round }
}
