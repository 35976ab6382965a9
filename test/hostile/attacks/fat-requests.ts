import { create, toBinary } from '@bufbuild/protobuf'
import { getObjectsMethod } from '../../../src/kas/modules/gitops/objects-to-synchronize.ts'
import { ObjectsToSynchronizeRequestSchema } from '../../../src/proto/gen/gitops_pb.ts'
import type { Attack } from '../attack.ts'
import { withUnknownFields } from '../raw-messages.ts'
import { dialStreams, playedOn, repeatRequest } from '../raw-streams.ts'

interface Size {
  /** streams at once; each is followed by the next */
  readonly streams: number
  readonly ms: number
}

/** the longest message that kas accepts */
const messageBytes = 256 * 1024
/** a request of no project: kas refuses it after it has read it */
const request = create(ObjectsToSynchronizeRequestSchema, { paths: [{ path: { case: 'glob', value: '*' } }] })
const message = withUnknownFields(toBinary(ObjectsToSynchronizeRequestSchema, request), messageBytes)

export const fatRequests: Attack<Size> = {
  name: 'fat-requests',
  what: 'requests for the files of a project, 256 KiB of fields that nobody knows each',
  refusal: /more than 100 fields/,
  counter: 'kas_agent_rate_limited_total{method="Gitops/GetObjectsToSynchronize",outcome="slowed"}',
  cheap: { streams: 16, ms: 1000 },
  full: { streams: 16, ms: 15_000 },
  async play(stage, { streams, ms }, signal) {
    const connection = await dialStreams(stage, stage.holder)
    const repeated = { method: getObjectsMethod, token: stage.evil.agentToken, message, streams, ms }
    return await playedOn([connection], () => repeatRequest(connection, repeated, signal))
  },
}
