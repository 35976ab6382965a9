import { create, toBinary } from '@bufbuild/protobuf'
import { reportMethod } from '../../../src/kas/modules/views/reports.ts'
import { ReportRequestSchema } from '../../../src/proto/gen/views_pb.ts'
import type { Attack } from '../attack.ts'
import { repeat, withUnknownFields } from '../raw-messages.ts'
import { dialStreams, playedOn } from '../raw-streams.ts'

interface Size {
  readonly ms: number
}

/** Together as many streams as one agent may have; a new connection may have 16 at once. */
const [connections, streams] = [2, 10]
/** the longest message that kas accepts */
const messageBytes = 16 * 1024
const request = create(ReportRequestSchema, { facts: { podName: 'evil', state: 'live' } })
const message = withUnknownFields(toBinary(ReportRequestSchema, request), messageBytes)

export const reportStream: Attack<Size> = {
  name: 'report-stream',
  what: 'reports on views, 16 KiB of fields that nobody knows, on as many streams as may be',
  counter: 'kas_agent_rate_limited_total{method="Reports/Report",outcome="slowed"}',
  cheap: { ms: 1000 },
  full: { ms: 15_000 },
  async play(stage, { ms }, signal) {
    const dialled = await Promise.all(Array.from({ length: connections }, () => dialStreams(stage, stage.holder)))
    return await playedOn(dialled, async () => {
      const open = dialled.flatMap((connection) =>
        Array.from({ length: streams }, () => connection.open(reportMethod, stage.evil.agentToken)),
      )
      await Promise.all(open.map((stream) => repeat(stream, message, ms, signal)))
      return ''
    })
  },
}
