import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { text } from 'node:stream/consumers'
import { connect, type TLSSocket } from 'node:tls'
import type { ReplicaPorts } from '../../dev/start/ports.ts'
import { encodeConnectRequest } from '../../src/proto/reverse-tunnel.ts'
import { FakeAgent } from '../support/fake-agent.ts'

/** A tenant: one agent token, and one user token for that agent. */
export interface Tenant {
  readonly agentToken: string
  /** token of the user's requests, after `Bearer ` */
  readonly userCredential: string
}

/** Addresses and credentials of an attack. JSON, since attackers are a process of their own. */
export interface Stage {
  /** PEM */
  readonly ca: string
  /** the replica without a connection of the good agent: calls that enter there pass a link */
  readonly entry: ReplicaPorts
  /** replica of the good agent's home connection */
  readonly holder: ReplicaPorts
  /** replica of its standby connection */
  readonly standby: ReplicaPorts
  readonly evil: Tenant
  /** path of a bare repository that the evil tenant may push to; empty where GitLab has it */
  readonly evilRepository: string
  /** the evil tenant's workload at an API server that good tenants use too */
  readonly workload: { readonly path: string; readonly userCredential: string }
  /** rights of a developer with one namespace and one repository; only for attacks with `cluster` */
  readonly shared?: SharedCluster
  /** only for attacks with neither `cluster` nor `gitlab` */
  readonly neighbour?: Neighbour
  /** only for attacks with neither `cluster` nor `gitlab` */
  readonly fleet?: Fleet
}

/** An agent of the evil tenant's fleet. */
export interface FleetAgent {
  readonly id: number
  readonly token: string
}

/** Many agents, which one user or one CI job may use. */
export interface Fleet {
  /** agents of the evil tenant's own project, which its user may use */
  readonly tenant: readonly FleetAgent[]
  /** agents of a project each, which one CI job may use */
  readonly projects: readonly FleetAgent[]
  readonly userToken: string
  readonly jobToken: string
}

/**
 * A user who may use the good tenants' agent, too, where its cluster is a double; with all of this user's credentials.
 */
export interface Neighbour {
  /** credentials of the user's personal access tokens, after `Bearer ` */
  readonly userCredentials: readonly string[]
  /** credentials of the user's jobs, each of another project, after `Bearer ` */
  readonly jobCredentials: readonly string[]
}

/** A real cluster that good tenants use too, behind their agentk. */
export interface SharedCluster {
  /** namespace where the user `gitlab:user:mallory` has all rights, and none elsewhere */
  readonly namespace: string
  /** credential of that user after `Bearer `, for the good tenants' agent at 8154, with views and `gitops/state` */
  readonly userCredential: string
  /**
   * Path of a bare repository that the user may push to. The good tenants' agent has a source of each of its branches
   * `plain`, `kustomize` and `helm`, with the root as path.
   */
  readonly repository: string
  readonly project: { readonly id: number; readonly path: string }
  /** secret of 8153, for push events to a replica (GitPushes) */
  readonly secretFile: string
}

/** @throws Error if the attack is not of `cluster` */
export function sharedOf({ shared }: Stage): SharedCluster {
  if (!shared) throw new Error('the stage has no cluster that is shared')
  return shared
}

/** @throws Error if the attack is of `cluster`, or of `gitlab` */
export function neighbourOf({ neighbour }: Stage): Neighbour {
  if (!neighbour) throw new Error('nobody else has rights to the good agent')
  return neighbour
}

/** @throws Error if the attack is of `cluster`, or of `gitlab` */
export function fleetOf({ fleet }: Stage): Fleet {
  if (!fleet) throw new Error('the evil tenant has one agent')
  return fleet
}

/** The evil tenant's own address, so that kas' limits by address do not count against others. */
export const evilAddress = '127.0.0.66'

export function dial(ca: string, port: number, alpn: string[] = [], localAddress = evilAddress): TLSSocket {
  const options = { host: '127.0.0.1', port, ca, localAddress, ALPNProtocols: alpn }
  return connect(options).on('error', () => undefined) // kas often cuts the attacker's connections
}

/** Opens a connection to 8150 and sends only HTTP/2's preface. */
export async function dialAgent(
  { ca, evil }: Stage,
  { agents }: ReplicaPorts,
  { token = evil.agentToken, metadata = {} }: { token?: string; metadata?: Record<string, string[]> } = {},
): Promise<FakeAgent> {
  const socket = dial(ca, agents, ['h2'])
  await once(socket, 'secureConnect')
  return new FakeAgent(socket, { authorization: [`Bearer ${token}`], ...metadata })
}

/** Resolves once kas has read all earlier messages: it has refused the last one. A PING could be one too many. */
export async function heard(agent: FakeAgent): Promise<void> {
  const tunnel = agent.openSilently()
  tunnel.send(encodeConnectRequest.header({})) // kas expects a descriptor first
  await tunnel.done
}

export interface Answered {
  readonly status: number
  readonly body: string
}

export interface EvilRequest {
  readonly method?: string
  /** body, sent as JSON */
  readonly body?: object
  readonly contentType?: string
  /** default: that of the evil tenant's user */
  readonly credential?: string
  readonly signal?: AbortSignal
}

/** Calls of the evil tenant's user, on kept connections. */
export class EvilUser {
  readonly #stage: Stage
  readonly #agent: Agent

  constructor(stage: Stage, connections = 16) {
    this.#stage = stage
    this.#agent = new Agent({
      keepAlive: true,
      maxSockets: connections,
      ca: stage.ca,
      localAddress: evilAddress,
      maxHeaderSize: 1_048_576,
    } as object)
  }

  get(ports: ReplicaPorts, path: string, options: EvilRequest = {}): Promise<Answered> {
    return this.send(ports, path, options)
  }

  async send(
    { kubernetes }: ReplicaPorts,
    path: string,
    { method, body, contentType, credential = this.#stage.evil.userCredential, signal }: EvilRequest = {},
  ): Promise<Answered> {
    const headers = {
      authorization: `Bearer ${credential}`,
      ...(body === undefined ? {} : { 'content-type': contentType ?? 'application/json' }),
    }
    const asked = request(`https://127.0.0.1:${kubernetes}${path}`, {
      agent: this.#agent,
      headers,
      ...(method ? { method } : {}),
      ...(signal ? { signal } : {}),
    })
    const answered = once(asked, 'response')
    asked.end(body === undefined ? undefined : JSON.stringify(body))
    const [answer] = (await answered) as [IncomingMessage]
    return { status: answer.statusCode ?? 0, body: await text(answer) }
  }

  close(): void {
    this.#agent.destroy()
  }
}

export const told = ({ status, body }: Answered): string => `${status} ${body.slice(0, 300)}`

/** @param line - method and path. @returns the head of a request, to its end */
export function headOf(line: string, credential: string, ...headers: readonly string[]): string {
  return [`${line} HTTP/1.1`, 'Host: kas', `Authorization: Bearer ${credential}`, ...headers, '', ''].join('\r\n')
}

/** @param protocol - subprotocol of the WebSocket */
export const upgradeHeaders = (protocol: string): readonly string[] => [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  `Sec-WebSocket-Protocol: ${protocol}`,
]

/** A text frame of a client, masked with zeros; shorter than 64 KiB. */
export function textFrame(text: string): Buffer {
  const payload = Buffer.from(text)
  const { length } = payload
  const size = length < 126 ? [0x80 | length] : [0x80 | 126, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([0x81, ...size, 0, 0, 0, 0]), payload])
}

/** @returns the first answer's status, and the part of its body that came with it */
export function textOf(answers: string): string {
  const [head = '', body = ''] = answers.split('\r\n\r\n')
  return `${head.slice('HTTP/1.1 '.length, head.indexOf('\r\n'))} ${body.split('HTTP/1.1')[0]}`
}
