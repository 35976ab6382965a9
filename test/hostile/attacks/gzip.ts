import { once } from 'node:events'
import { type ClientHttp2Session, connect } from 'node:http2'
import { gzipSync } from 'node:zlib'
import { create, toBinary } from '@bufbuild/protobuf'
import { getConfigurationMethod } from '../../../src/kas/modules/configuration/configuration.ts'
import { abortable } from '../../../src/lib/signals.ts'
import { ConfigurationRequestSchema } from '../../../src/proto/gen/agent_configuration_pb.ts'
import { connectMethod } from '../../../src/proto/reverse-tunnel.ts'
import { framed } from '../../contract/grpc/raw-peers.ts'
import { type Attack, over } from '../attack.ts'
import { dial, type Stage } from '../stage.ts'

interface Size {
  /** of a stranger, and as many of the evil tenant */
  readonly streams: number
  /** of each stream, each 4 MiB once it is decompressed */
  readonly messages: number
}

const bomb = framed(1, gzipSync(Buffer.alloc(4 * 1024 * 1024), { level: 9 }))
const quiet = { skipRegister: true }
/** read at once; what comes behind it never is */
const firstMessage = framed(0, toBinary(ConfigurationRequestSchema, create(ConfigurationRequestSchema, quiet)))

function send(session: ClientHttp2Session, method: string, token: string | undefined, body: Buffer): Promise<string> {
  const stream = session.request(
    {
      ':method': 'POST',
      ':path': method,
      'content-type': 'application/grpc',
      te: 'trailers',
      'grpc-encoding': 'gzip',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    { endStream: false },
  )
  let refusal = 'the stream was ended without a word'
  const hear = (headers: Record<string, unknown>) => {
    if (headers['grpc-status'] !== undefined) refusal = `${headers['grpc-status']} ${headers['grpc-message']}`
  }
  stream.on('error', () => undefined)
  stream.on('response', hear)
  stream.on('trailers', hear)
  stream.resume()
  stream.write(body)
  return new Promise((resolve) => stream.once('close', () => resolve(refusal)))
}

async function open(stage: Stage): Promise<ClientHttp2Session> {
  const socket = dial(stage.ca, stage.holder.agents, ['h2'])
  const session = connect('https://kas.test', { createConnection: () => socket })
  session.on('error', () => undefined)
  await once(session, 'connect')
  return session
}

export const gzip: Attack<Size> = {
  name: 'gzip',
  what: 'messages of 4 KiB that are 4 MiB once decompressed, of a stranger and of an agent, never read',
  refusal: /^(7|8|16) /,
  counter: 'kas_agents_refused_total{reason="unauthenticated"}',
  cheap: { streams: 48, messages: 4 },
  full: { streams: 120, messages: 4 },
  async play(stage, { streams, messages }, signal) {
    const [stranger, tenant] = [await open(stage), await open(stage)]
    const bombs = Buffer.concat(Array.from({ length: messages }, () => bomb))
    try {
      for (let i = 0; i < streams; i++) {
        void send(tenant, getConfigurationMethod, stage.evil.agentToken, Buffer.concat([firstMessage, bombs]))
      }
      const refused = Array.from({ length: streams }, () => send(stranger, connectMethod, undefined, bombs))
      const [refusal = ''] = await abortable(Promise.all(refused), signal)
      await abortable(send(tenant, connectMethod, undefined, Buffer.alloc(0)), signal) // all before it has been read
      return over(refusal)
    } finally {
      stranger.destroy()
      tenant.destroy()
    }
  },
}
