import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { pushMethod } from '../../../src/kas/modules/gitops/states-receiver.ts'
import { SourceStateSchema } from '../../../src/proto/gen/gitops_states_pb.ts'
import { maxStateBytes } from '../../../src/proto/gitops/limits.ts'
import { framePrefix } from '../../../src/proto/grpc/frames.ts'
import type { Attack } from '../attack.ts'
import { dialStreams } from '../raw-streams.ts'
import { EvilUser, type Stage } from '../stage.ts'
import { evilId } from '../tenants.ts'

interface Size {
  /** rounds at each replica */
  readonly rounds: number
}

const sources = 15
const askedAtOnce = 16
/** The most trouble that a state may name, in characters that JSON writes as six. */
const trouble = Array.from({ length: 100 }, () => ({ text: '\u0001'.repeat(300), key: { kind: 'K', name: 'n' } }))
/** field 2047, a varint; no version knows it */
const unknownField = Buffer.from([0xf8, 0x7f, 1])

const encoded = (init: MessageInitShape<typeof SourceStateSchema>) =>
  toBinary(SourceStateSchema, create(SourceStateSchema, { project: 'evil/clusters', ...init }))

const framed = (bytes: Uint8Array) => Buffer.concat([framePrefix(bytes.length), bytes])

/** States of the largest allowed size. @param agent - its id, with which names of sources begin */
export const fullStates = (agent: number) =>
  Buffer.concat(Array.from({ length: sources }, (_, i) => framed(encoded({ source: `${agent}-2-${i}`, trouble }))))

const unknown = Buffer.concat(
  Array.from({ length: sources }, (_, i) => {
    const known = encoded({ source: `43-2-${i}` })
    const fields = Math.floor((maxStateBytes - known.length) / unknownField.length)
    return framed(Buffer.concat([known, Buffer.alloc(fields * unknownField.length, unknownField)]))
  }),
)

export const heavyStates: Attack<Size> = {
  name: 'heavy-states',
  what: 'states of 64 KiB at each replica, also of fields that nobody knows, and all of them asked for at once',
  refusal: /more than 1000 fields of a state/,
  cluster: true,
  cheap: { rounds: 1 },
  full: { rounds: 2 }, // each takes some 20 s, since the rate of answers is limited
  async play(stage, { rounds }, signal) {
    const replicas = [stage.holder, stage.standby, stage.entry]
    const connections = await Promise.all(replicas.map((at) => dialStreams(stage, at)))
    const user = new EvilUser(stage, askedAtOnce)
    const end = async () => {
      user.close()
      for (const connection of connections) connection.destroy()
    }
    const push = async (messages: Buffer) =>
      await Promise.all(
        connections.map(async (connection) => {
          const stream = connection.open(pushMethod, stage.evil.agentToken)
          await stream.write(messages)
          return stream
        }),
      )
    try {
      const refused = await Promise.all((await push(unknown)).map((stream) => stream.refused))
      await push(fullStates(evilId))
      const answers = new Set<string>()
      for (let round = 0; round < rounds; round++) answers.add(await askAll(user, stage, signal))
      return { refusal: [...new Set(refused), ...answers].join('; '), end }
    } catch (error) {
      await end()
      throw error
    }
  },
}

/** @returns the statuses of all answers */
async function askAll(user: EvilUser, { entry, holder, standby }: Stage, signal: AbortSignal): Promise<string> {
  const asked = [entry, holder, standby].flatMap((at) =>
    Array.from({ length: askedAtOnce }, () => user.get(at, '/gitops/state', { signal })),
  )
  const statuses = (await Promise.all(asked)).map(({ status }) => status)
  return [...new Set(statuses)].join(', ')
}
