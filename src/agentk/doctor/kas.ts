import { create, toBinary } from '@bufbuild/protobuf'
import { monotonicClock } from '../../lib/clock.ts'
import { type Found, failed } from '../../lib/doctor/findings.ts'
import { KasError } from '../../lib/errors.ts'
import { proxyFromEnvironment } from '../../lib/proxy.ts'
import { abortable } from '../../lib/signals.ts'
import type { Version } from '../../lib/version.ts'
import { decodeMessage } from '../../proto/decode.ts'
import { ConfigurationRequestSchema, ConfigurationResponseSchema } from '../../proto/gen/agent_configuration_pb.ts'
import { driftFeature } from '../../proto/gitops/features.ts'
import { ClientSession } from '../../proto/grpc/client-session.ts'
import { writeFeatures } from '../../proto/placement.ts'
import type { Config } from '../config/config.ts'
import { getConfigurationMethod } from '../configuration/configuration.ts'
import { callMetadata, selfOf } from '../self.ts'
import { KeepAlive, stockTimes } from '../tunnels/keep-alive.ts'
import { nextStepOfRefusal, nextStepToKas } from '../tunnels/next-step.ts'
import { dialKas, kindOfProxy } from '../tunnels/transport.ts'

type Answer = Found & { readonly agentId?: bigint; readonly hasGitops?: boolean }

/** Answer of kas, as far as other checks need it. */
export interface KasAnswer {
  /** agent that the token belongs to; undefined: kas has not sent it */
  readonly agentId: bigint | undefined
  /** the agent's configuration has a block `gitops`; false also if kas has not sent it */
  readonly hasGitops: boolean
}

/** timeout of the connection, and of the answer, in ms */
const timeoutMs = 10_000

/** Connects as agentk does, and asks for its configuration without registering. */
export async function checkKas(config: Config, version: Version): Promise<KasAnswer & { readonly found: Found }> {
  const { agentId, hasGitops = false, ...found } = await tryKas(config, version)
  return { found: { subject: '--kas-address', ...found }, agentId, hasGitops }
}

async function tryKas(config: Config, version: Version): Promise<Answer> {
  const { address } = config.kas
  const connecting = AbortSignal.timeout(timeoutMs)
  try {
    return await connected(config, { version, connecting }, (session) => ask(session, config, version))
  } catch (error) {
    const by = proxyOf(config)
    const late = `no connection within ${timeoutMs} ms${by === undefined ? '' : `, by the proxy ${by}`}`
    const text = connecting.aborted ? late : (error as Error).message
    return failed(`${address.authority}: ${text}`, nextStepToKas(error, address) ?? 'check what is between')
  }
}

function proxyOf({ kas: { address }, env }: Config): string | undefined {
  try {
    return proxyFromEnvironment(env, kindOfProxy(address), address)?.host
  } catch {
    return undefined // the check `proxies` reports it
  }
}

/** @throws the error of `dialKas` */
async function connected<T>(
  config: Config,
  { version, connecting }: { version: Version; connecting: AbortSignal },
  use: (session: ClientSession) => Promise<T>,
): Promise<T> {
  const { kas, token, env } = config
  const { address } = kas
  const { product: userAgent } = selfOf(config, version)
  const duplex = await dialKas({ ...kas, userAgent, authorization: () => `Bearer ${token()}`, env }, connecting)
  const scheme = address.scheme === 'grpcs' ? 'https' : 'http'
  const session = ClientSession.over(duplex, { authority: address.authority, scheme, userAgent })
  try {
    return await use(session)
  } finally {
    session.destroy()
    await session.closed
  }
}

/** Opens a stream of the agent's configuration. kas sends on it until the stream ends. */
function openConfiguration(
  session: ClientSession,
  config: Config,
  { version, signal }: { version: Version; signal: AbortSignal },
) {
  const metadata = { ...callMetadata(config), ...writeFeatures(driftFeature) }
  const stream = session.open({ method: getConfigurationMethod, metadata, signal })
  const request = { commitId: '', agentMeta: selfOf(config, version).meta, skipRegister: true }
  void stream.send(toBinary(ConfigurationRequestSchema, create(ConfigurationRequestSchema, request)))
  stream.end()
  return stream
}

async function ask(session: ClientSession, config: Config, version: Version): Promise<Answer> {
  const { authority } = config.kas.address
  const signal = AbortSignal.timeout(timeoutMs)
  const stream = openConfiguration(session, config, { version, signal })
  try {
    const first = await abortable(stream.messages[Symbol.asyncIterator]().next(), signal)
    if (!first.done) {
      const { configuration } = decodeMessage(ConfigurationResponseSchema, first.value)
      if (!configuration) return withoutConfiguration(authority)
      const { agentId, moduleBlock } = configuration
      const text = `${authority}: kas takes the token: it is of agent ${agentId}`
      return { state: 'ok', text, agentId, hasGitops: moduleBlock.gitops !== undefined }
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

/**
 * Checks if the network in front of kas keeps a stream open that carries only the PINGs of a stock agent.
 *
 * @param seconds - undefined: the user does not ask for this check
 */
export async function checkIdle(config: Config, version: Version, seconds: number | undefined): Promise<Found> {
  if (seconds === undefined) {
    const text = 'whether an idle stream lives is not checked without --idle SECONDS'
    return { state: 'skipped', text, advice: '--idle 70 is longer than what most fronts cut after' }
  }
  const subject = '--kas-address'
  const connecting = AbortSignal.timeout(timeoutMs)
  try {
    const found = await connected(config, { version, connecting }, (session) =>
      stayIdle(session, config, { version, seconds }),
    )
    return { subject, ...found }
  } catch {
    return { state: 'skipped', subject, text: 'there is no connection to kas' } // the check `kas` reports why
  }
}

async function stayIdle(
  session: ClientSession,
  config: Config,
  { version, seconds }: { readonly version: Version; readonly seconds: number },
): Promise<Found> {
  const keepAlive = new KeepAlive(session, { times: stockTimes, clock: monotonicClock })
  const cancelled = new AbortController()
  const stream = openConfiguration(session, config, { version, signal: cancelled.signal })
  const messages = stream.messages[Symbol.asyncIterator]()
  try {
    const first = await abortable(messages.next(), AbortSignal.timeout(timeoutMs))
    if (first.done) return { state: 'skipped', text: 'kas has ended the stream at once' }
    keepAlive.start()
    const begin = performance.now()
    const end = AbortSignal.timeout(seconds * 1000)
    const lived = () => Math.round((performance.now() - begin) / 1000)
    try {
      while (!(await abortable(messages.next(), end)).done); // the configuration may change meanwhile
    } catch (error) {
      if (end.aborted) return { state: 'ok', text: `an idle stream has lived for ${seconds} s` }
      return failed(`an idle stream was cut after ${lived()} s: ${KasError.from(error).message}`, idleAdvice)
    }
    const { error } = await stream.done
    return failed(`an idle stream was ended after ${lived()} s: ${error?.message ?? 'without an error'}`, idleAdvice)
  } finally {
    keepAlive.stop()
    cancelled.abort(new KasError({ code: 'CANCELLED', detail: 'it was idle for long enough' }))
  }
}

const idleAdvice =
  'let what is in front of kas wait longer: proxy_read_timeout, grpc_read_timeout of nginx, timeout tunnel, timeout server of HAProxy, the idle timeout of a load balancer; or kas itself was stopped meanwhile'

const withoutConfiguration = (authority: string): Found =>
  failed(`${authority}: the answer has no configuration`, 'is it kas that answers there?')
