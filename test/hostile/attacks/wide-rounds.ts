import { execFile } from 'node:child_process'
import { create, toBinary } from '@bufbuild/protobuf'
import { getObjectsMethod } from '../../../src/kas/modules/gitops/objects-to-synchronize.ts'
import { ObjectsToSynchronizeRequestSchema } from '../../../src/proto/gen/gitops_pb.ts'
import { framePrefix } from '../../../src/proto/grpc/frames.ts'
import type { Attack } from '../attack.ts'
import { dialStreams, playedOn, repeatRequest } from '../raw-streams.ts'

interface Size {
  readonly files: number
  /** streams at once; each is followed by the next */
  readonly streams: number
  readonly ms: number
}

const branch = 'wide'
const globs = 100

/** kas compares each with all files to its end, and none matches. */
const paths = Array.from({ length: globs }, (_, i) => ({
  path: { case: 'glob' as const, value: `*/manifest-*-of-${i}.yml` },
}))

export const wideRounds: Attack<Size> = {
  name: 'wide-rounds',
  what: 'rounds of 45,000 files, compared with 100 globs that match none, one after the other',
  counter: 'kas_agent_rate_limited_total{method="Gitops/GetObjectsToSynchronize",outcome="slowed"}',
  cheap: { files: 45_000, streams: 4, ms: 3000 },
  full: { files: 45_000, streams: 16, ms: 15_000 },
  async play(stage, { files, streams, ms }, signal) {
    await push(stage.evilRepository, files, signal)
    const connection = await dialStreams(stage, stage.holder)
    const request = create(ObjectsToSynchronizeRequestSchema, {
      projectId: 'evil/clusters',
      ref: { ref: { case: 'branch', value: branch } },
      paths,
    })
    const bytes = toBinary(ObjectsToSynchronizeRequestSchema, request)
    const message = Buffer.concat([framePrefix(bytes.length), bytes])
    const repeated = { method: getObjectsMethod, token: stage.evil.agentToken, message, streams, ms }
    return await playedOn([connection], () => repeatRequest(connection, repeated, signal))
  },
}

/** Pushes one commit, in which all files have the same content. */
function push(repository: string, files: number, signal: AbortSignal): Promise<void> {
  const lines = Array.from({ length: files }, (_, i) => `M 100644 :1 folder-${i % 100}/manifest-${i}.yaml`)
  const head = [
    'blob\nmark :1\ndata 2\n{}',
    `commit refs/heads/${branch}`,
    'committer evil <evil@localhost> 1760000000 +0000',
    'data 4',
    'wide',
    'deleteall',
  ]
  return new Promise((resolve, reject) => {
    const argv = ['-C', repository, 'fast-import', '--quiet', '--force']
    const child = execFile('git', argv, { signal }, (error) => (error ? reject(error) : resolve()))
    child.stdin?.on('error', () => undefined) // its exit has the reason
    child.stdin?.end(`${[...head, ...lines].join('\n')}\n`)
  })
}
