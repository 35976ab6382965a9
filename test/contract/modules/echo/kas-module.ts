import { create } from '@bufbuild/protobuf'
import { Counter } from 'prom-client'
import type { KasHost, KasModule } from '../../../../src/kas/module.ts'
import { closeCodes } from '../../../../src/lib/close-codes.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { unaryService } from '../../../../src/proto/unary.ts'
import { Echo, SayResponseSchema } from './gen/echo_pb.ts'

/** A feature of kas that sends a word to all replicas. It has each kind of part that a module may have. */
export function createEcho({ peers, register }: KasHost, name: string): KasModule {
  const heard = new Counter({ name: 'echo_heard_total', help: 'Words of other replicas', registers: [register] })
  let last = 'nothing'
  let count = 0
  let request = 'nothing'
  return {
    name: 'echo',
    features: ['echo'],
    observe: (call) => (end) => {
      request = `${call.fields().path} ${end.outcome}`
    },
    replicaMethods: unaryService(Echo, {
      say: async ({ word }) => {
        heard.inc()
        count += 1
        last = word
        return create(SayResponseSchema, { name })
      },
    }),
    endpoints: [
      {
        path: '/echo',
        methods: ['GET'],
        serve: async ({ agentId, query }) => {
          const [word] = query.get('word') ?? []
          if (word === undefined) throw new KasError({ code: 'BAD_REQUEST', detail: 'the query has no word' })
          const answers = await peers.broadcast(Echo.method.say, { word })
          const names = Array.from(answers.values(), (answer) => answer.name).toSorted()
          const body = Buffer.from(JSON.stringify({ agentId: Number(agentId), names }))
          return { status: 200, mediaType: 'application/json', body }
        },
        upgrade: {
          protocol: 'echo',
          maxMessageBytes: 20,
          what: 'WebSockets for echoes of this agent',
          open: ({ agentId, impersonation, socket }) => ({
            message: (word) => void socket.send(`${agentId} ${impersonation?.username}: ${word}`),
            changed: () => socket.close(closeCodes.policyViolation, 'you are somebody else'),
            withdraw: ({ message }) => socket.close(closeCodes.policyViolation, message),
            closed: () => {
              last = 'closed'
            },
          }),
        },
      },
    ],
    status: () => [
      ['last word', last],
      ['heard', count],
      ['last request', request],
    ],
  }
}
