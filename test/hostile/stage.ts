import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { text } from 'node:stream/consumers'
import { connect, type TLSSocket } from 'node:tls'
import type { ReplicaPorts } from '../../dev/start/ports.ts'
import { encodeConnectRequest } from '../../src/proto/reverse-tunnel.ts'
import { FakeAgent } from '../support/fake-agent.ts'

/** A tenant: one agent token, and one user token for his own agent. */
export interface Tenant {
  readonly agentToken: string
  /** what his requests carry after `Bearer ` */
  readonly userCredential: string
}

/** What an attack can reach: JSON, since attackers are a process of their own. */
export interface Stage {
  /** PEM */
  readonly ca: string
  /** the replica that has no connection of the good agent: what enters there passes a link */
  readonly entry: ReplicaPorts
  /** where the good agent's home connection is */
  readonly holder: ReplicaPorts
  /** where its other one is */
  readonly standby: ReplicaPorts
  readonly evil: Tenant
  /** a bare repository, a path: what he may push to; empty where GitLab has his */
  readonly evilRepository: string
  /** of an API server that good tenants use too, of the evil one's workload there */
  readonly workload: { readonly path: string; readonly userCredential: string }
  /** what a developer with one namespace and one repository has; of attacks with `cluster` alone */
  readonly shared?: SharedCluster
  /** of attacks with neither `cluster` nor `gitlab` */
  readonly neighbour?: Neighbour
  /** of the same attacks */
  readonly fleet?: Fleet
}

/** An agent of the evil tenant's fleet. */
export interface FleetAgent {
  readonly id: number
  readonly token: string
}

/** Many agents, which one user or one CI job may use. */
export interface Fleet {
  /** of the evil tenant's own project: its user may use them */
  readonly tenant: readonly FleetAgent[]
  /** each of a project of its own: one CI job may use them */
  readonly projects: readonly FleetAgent[]
  readonly userToken: string
  readonly jobToken: string
}

/** Who may use the good tenants' agent too, where its cluster is a double: one user, by all ways that she has. */
export interface Neighbour {
  /** of her personal access tokens. After `Bearer ` */
  readonly userCredentials: readonly string[]
  /** of her jobs, each of a project of its own. After `Bearer ` */
  readonly jobCredentials: readonly string[]
}

/** Of a real cluster that good tenants use too, behind their agentk. */
export interface SharedCluster {
  /** where mallory may do everything, as `gitlab:user:mallory`; she may nothing elsewhere */
  readonly namespace: string
  /** after `Bearer `, for the good tenants' agent, at 8154, views and `gitops/state` included: acts as that user */
  readonly userCredential: string
  /**
   * A bare repository, a path, that she may push to. The good tenants' agent has a source of each of its branches: `plain`,
   * `kustomize` and `helm`, the path of which is the root.
   */
  readonly repository: string
  readonly project: { readonly id: number; readonly path: string }
  /** of 8153, to notify a replica of a push (GitPushes) */
  readonly secretFile: string
}

/** @throws Error: the attack is not of `cluster` */
export function sharedOf({ shared }: Stage): SharedCluster {
  if (!shared) throw new Error('the stage has no cluster that is shared')
  return shared
}

/** @throws Error: the attack is of `cluster`, or of `gitlab` */
export function neighbourOf({ neighbour }: Stage): Neighbour {
  if (!neighbour) throw new Error('nobody else has rights to the good agent')
  return neighbour
}

/** @throws Error: the attack has `cluster` or `gitlab` */
export function fleetOf({ fleet }: Stage): Fleet {
  if (!fleet) throw new Error('the evil tenant has one agent')
  return fleet
}

/** The evil tenant's own, so that what is counted by address does not count against others. */
export const evilAddress = '127.0.0.66'

export function dial(ca: string, port: number, alpn: string[] = [], localAddress = evilAddress): TLSSocket {
  const options = { host: '127.0.0.1', port, ca, localAddress, ALPNProtocols: alpn }
  return connect(options).on('error', () => undefined) // the evil one is used to being thrown out
}

/** A connection to 8150 on which nothing was said but HTTP/2's preface. */
export async function dialAgent(
  { ca, evil }: Stage,
  { agents }: ReplicaPorts,
  { token = evil.agentToken, metadata = {} }: { token?: string; metadata?: Record<string, string[]> } = {},
): Promise<FakeAgent> {
  const socket = dial(ca, agents, ['h2'])
  await once(socket, 'secureConnect')
  return new FakeAgent(socket, { authorization: [`Bearer ${token}`], ...metadata })
}

/** Resolves once kas has read all that was sent before: it has refused what was sent last. A PING could be one too many. */
export async function heard(agent: FakeAgent): Promise<void> {
  const tunnel = agent.openSilently()
  tunnel.send(encodeConnectRequest.header({})) // a descriptor has to come first
  await tunnel.done
}

export interface Answered {
  readonly status: number
  readonly body: string
}

export interface EvilRequest {
  readonly method?: string
  /** sent as JSON */
  readonly body?: object
  readonly contentType?: string
  /** default: of the evil tenant's user */
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

/** @param protocol - of the WebSocket */
export const upgradeHeaders = (protocol: string): readonly string[] => [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  `Sec-WebSocket-Protocol: ${protocol}`,
]

/** A frame of a client, masked with zeros; shorter than 64 KiB. */
export function textFrame(text: string): Buffer {
  const payload = Buffer.from(text)
  const { length } = payload
  const size = length < 126 ? [0x80 | length] : [0x80 | 126, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([0x81, ...size, 0, 0, 0, 0]), payload])
}

/** @returns the first answer's status, and its body as far as it came in one piece */
export function textOf(answers: string): string {
  const [head = '', body = ''] = answers.split('\r\n\r\n')
  return `${head.slice('HTTP/1.1 '.length, head.indexOf('\r\n'))} ${body.split('HTTP/1.1')[0]}`
}
