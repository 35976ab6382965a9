import { once } from 'node:events'
import { access, constants } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname } from 'node:path'
import { connectProblem } from '../../../lib/can-connect.ts'
import { type Found, failed } from '../../../lib/doctor/findings.ts'
import { KasError } from '../../../lib/errors.ts'
import { formatHostPort } from '../../../lib/host-port.ts'
import { unreachableGossip } from '../../config/gossip-listen.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import { type Listen, type ListenOptions, parseListenAddress } from '../../config/listen-address.ts'
import { listenFailure } from '../../servers/listen-failure.ts'

/** bound of a connection. ms */
const timeoutMs = 5000

/** Finds gossip on loopback, which other replicas cannot reach; kas itself reports it only in its log. */
function onLoopback({ cluster, private_api }: KasConfig): Found[] {
  if (private_api.listen.authentication_secret_file === undefined) return []
  const problem = unreachableGossip(cluster)
  if (problem === undefined) return []
  const [text = problem, ...advice] = problem.split('. ')
  return [{ ...failed(text, advice.join('. ')), subject: 'cluster.listen.address' }]
}

interface Place {
  readonly key: string
  readonly listen: Listen
  readonly options: ListenOptions
}

/**
 * Checks the addresses on which kas listens.
 *
 * @param isPre - true: kas does not run yet, and each address is taken for a moment. false: a program has to listen
 *   there
 */
export async function checkListen(config: KasConfig, { isPre }: { readonly isPre: boolean }): Promise<Found[]> {
  const tryPlace = isPre ? tryToListen : tryToConnect
  const places = placesOf(config)
  const found = await Promise.all(places.map(async (place) => ({ subject: place.key, ...(await tryPlace(place)) })))
  if (isPre || found.some(({ state }) => state !== 'failed')) return [...onLoopback(config), ...found]
  return [failed('nobody listens where the configuration says', 'start kas with this configuration, or say --pre')]
}

function placesOf(config: KasConfig): Place[] {
  const { agent, observability, api, private_api, cluster, directory, ops } = config
  const { socket } = ops
  const isShared = private_api.listen.authentication_secret_file !== undefined
  const hasApi = directory.file === undefined || api.listen.authentication_secret_file !== undefined
  const blocks: Readonly<Record<string, Listen | undefined>> = {
    'agent.listen': agent.listen,
    'agent.kubernetes_api.listen': agent.kubernetes_api?.listen,
    'observability.listen': observability.listen,
    'api.listen': hasApi ? api.listen : undefined,
    'private_api.listen': isShared ? private_api.listen : undefined,
    'cluster.listen': isShared && private_api.listen.network !== 'unix' ? cluster.listen : undefined,
  }
  const places = Object.entries(blocks).map(([block, listen]) => [`${block}.address`, listen] as const)
  const ofOps: Listen | undefined = socket === undefined ? undefined : { network: 'unix', address: socket }
  return [...places, ['ops.socket', ofOps] as const].flatMap(([key, listen]) => {
    const options = listen && parseListenAddress(listen.network, listen.address)
    return listen && options ? [{ key, listen, options }] : []
  })
}

async function tryToListen({ key, listen, options }: Place): Promise<Found> {
  const server = createServer()
  try {
    if ('path' in options) return await tryToMakeSocket(options.path)
    server.listen(options)
    await once(server, 'listening')
    return { state: 'ok', text: `${listen.address} is free` }
  } catch (error) {
    const failure = listenFailure(error, { file: '', key, listen })
    const [problem = (error as Error).message] =
      failure instanceof KasError && failure.spec.code === 'SETTINGS_INVALID' ? failure.spec.problems : []
    const [text = problem, ...advice] = problem.replace(`${key}: `, '').split(': ')
    return failed(text, advice.length > 0 ? advice.join(': ') : undefined)
  } finally {
    server.close()
  }
}

/**
 * Checks the folder. It creates no socket, which would remove that of a killed kas.
 *
 * @throws the error of reading the folder
 */
async function tryToMakeSocket(path: string): Promise<Found> {
  const folder = dirname(path)
  if ((await connectProblem({ path }, timeoutMs)) === undefined) {
    return failed(`another kas listens on ${path}`, 'end it, or choose another path')
  }
  await access(folder, constants.W_OK | constants.X_OK)
  return { state: 'ok', text: `nobody listens on ${path}, and ${folder} can be written to` }
}

async function tryToConnect({ listen, options }: Place): Promise<Found> {
  const to = 'path' in options ? options : { ...options, host: hostToDial(options.host) }
  if ('port' in to && to.port === 0) {
    return { state: 'skipped', text: 'the port is chosen at the start, and not known here' }
  }
  const place = 'path' in to ? to.path : formatHostPort(to)
  const problem = await connectProblem(to, timeoutMs)
  if (problem === undefined) return { state: 'ok', text: `somebody listens at ${place}` }
  const advice = 'does kas run with this configuration, here? Its log says where it listens; else say --pre'
  return failed(`${listen.address}: ${problem}`, advice)
}

function hostToDial(host: string | undefined): string {
  if (host === undefined || host === '0.0.0.0') return '127.0.0.1'
  return host === '::' ? '::1' : host
}
