import { create, toBinary } from '@bufbuild/protobuf'
import { KasError } from '../../lib/errors.ts'
import type { Finding } from '../../lib/findings.ts'
import { abortable } from '../../lib/signals.ts'
import type { Version } from '../../lib/version.ts'
import { decodeMessage } from '../../proto/decode.ts'
import { ConfigurationRequestSchema, ConfigurationResponseSchema } from '../../proto/gen/agent_configuration_pb.ts'
import { ClientSession } from '../../proto/grpc/client-session.ts'
import type { Config } from '../config/config.ts'
import { getConfigurationMethod } from '../configuration/configuration.ts'
import { callMetadata, selfOf } from '../self.ts'
import { nextStepOfRefusal, nextStepToKas } from '../tunnels/next-step.ts'
import { dialKas } from '../tunnels/transport.ts'

type Look = Omit<Finding, 'check' | 'subject'>

export interface CheckedKas {
  readonly finding: Finding
  /** if kas has told whose the token is */
  readonly agentId: bigint | undefined
}

type Answer = Look & { readonly agentId?: bigint }

/** of the connection, and of the answer. ms */
const timeoutMs = 10_000

/** Connects as agentk does, and asks for its configuration, without registering. */
export async function checkKas(config: Config, version: Version): Promise<CheckedKas> {
  const { agentId, ...found } = await look(config, version)
  return { finding: { check: 'kas', subject: '--kas-address', ...found }, agentId }
}

async function look(config: Config, version: Version): Promise<Answer> {
  const { kas, token, env } = config
  const { address } = kas
  const { product: userAgent } = selfOf(config, version)
  const connecting = AbortSignal.timeout(timeoutMs)
  const transport = { ...kas, userAgent, authorization: () => `Bearer ${token()}`, env }
  try {
    const duplex = await dialKas(transport, connecting)
    const scheme = address.scheme === 'grpcs' ? 'https' : 'http'
    const session = ClientSession.over(duplex, { authority: address.authority, scheme, userAgent })
    try {
      return await ask(session, config, version)
    } finally {
      session.destroy()
      await session.closed
    }
  } catch (error) {
    const text = connecting.aborted ? `no connection within ${timeoutMs} ms` : (error as Error).message
    return failed(`${address.authority}: ${text}`, nextStepToKas(error, address) ?? 'look at what is between')
  }
}

async function ask(session: ClientSession, config: Config, version: Version): Promise<Answer> {
  const { authority } = config.kas.address
  const signal = AbortSignal.timeout(timeoutMs)
  const stream = session.open({ method: getConfigurationMethod, metadata: callMetadata(config), signal })
  const request = { commitId: '', agentMeta: selfOf(config, version).meta, skipRegister: true }
  void stream.send(toBinary(ConfigurationRequestSchema, create(ConfigurationRequestSchema, request)))
  stream.end()
  try {
    const first = await abortable(stream.messages[Symbol.asyncIterator]().next(), signal)
    if (!first.done) {
      const { configuration } = decodeMessage(ConfigurationResponseSchema, first.value)
      if (!configuration) return withoutConfiguration(authority)
      const { agentId } = configuration
      return { state: 'ok', text: `${authority}: kas takes the token: it is of agent ${agentId}`, agentId }
    }
    const { error } = await abortable(stream.done, signal)
    if (!error) return withoutConfiguration(authority)
    const advice = nextStepOfRefusal(error) ?? nextStepToKas(error, config.kas.address)
    return failed(`${authority}: ${error.message}`, advice ?? 'the log of kas says more')
  } catch (error) {
    const text = signal.aborted ? `no configuration within ${timeoutMs} ms` : KasError.from(error).message
    return failed(
      `${authority}: ${text}`,
      'does kas reach the repository of the agent, and what is in front of kas HTTP/2?',
    )
  } finally {
    stream.cancel(new KasError({ code: 'CANCELLED', detail: 'it was asked once' }))
  }
}

const withoutConfiguration = (authority: string): Look =>
  failed(`${authority}: the answer has no configuration`, 'is it kas that answers there?')

const failed = (text: string, advice: string): Look => ({ state: 'failed', text, advice })
