import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type Agent, request } from 'node:https'
import { text } from 'node:stream/consumers'
import { patience } from '../slowness.ts'

/** Requests of callers who ask for another identity, in every spelling. */

type HeaderLines = readonly (readonly [name: string, value: string])[]

export interface Shape {
  readonly name: string
  /** path below the API server, or kas' own endpoint; `CASE` becomes the request's id for the audit log */
  readonly target: string
  readonly method?: 'GET' | 'POST'
  readonly body?: object
  readonly headers: HeaderLines
  /** an answer without end */
  readonly isWatch?: true
}

export interface Answer {
  readonly status: number
  /** empty for an upgrade or a watch */
  readonly body: string
}

const review = {
  target: '/apis/authentication.k8s.io/v1/selfsubjectreviews?case=CASE',
  method: 'POST',
  body: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
} as const
const pods = '/api/v1/namespaces/shop/pods'
const exec = `${pods}/web/exec?command=true&stdout=1&case=CASE`
const key = 'dGhlIHNhbXBsZSBub25jZQ=='
const webSocket = (protocol: string): HeaderLines => [
  ['Connection', 'Upgrade'],
  ['Upgrade', 'websocket'],
  ['Sec-WebSocket-Version', '13'],
  ['Sec-WebSocket-Key', key],
  ['Sec-WebSocket-Protocol', protocol],
]
const spdy: HeaderLines = [
  ['Connection', 'Upgrade'],
  ['Upgrade', 'SPDY/3.1'],
  ['X-Stream-Protocol-Version', 'v4.channel.k8s.io'],
]
const user = 'Impersonate-User'
const group = 'Impersonate-Group'
const masters: HeaderLines = [
  [user, 'mallory'],
  [group, 'system:masters'],
]
const probe = 'system:serviceaccount:ops:probe'

const shape = (name: string, headers: HeaderLines): Shape => ({ name, ...review, headers })
const carried = (name: string, target: string, headers: HeaderLines, more: Partial<Shape> = {}): Shape[] =>
  [[], masters].map((given) => ({
    name: given.length > 0 ? `${name}, User and Group` : name,
    target,
    headers: [...headers, ...given],
    ...more,
  }))

/** The request without impersonation. */
export const plain = shape('plain', [])

/** A hop removes these headers from the request that it passes on. */
export const dropped = shape('named by Connection', [['Connection', `close, ${user}, ${group}`], ...masters])

export const shapes: readonly Shape[] = [
  plain,
  shape('User', [[user, 'mallory']]),
  shape('User and Group', masters),
  shape('Group alone', [[group, 'system:masters']]),
  shape('Uid', [
    [user, 'mallory'],
    ['Impersonate-Uid', 'robot-uid'],
  ]),
  shape('Uid alone', [['Impersonate-Uid', 'robot-uid']]),
  shape('Extra', [
    [user, 'mallory'],
    ['Impersonate-Extra-Scopes', 'all'],
  ]),
  shape('Extra alone', [['Impersonate-Extra-example.com%2Freason', 'all']]),
  shape('a user of GitLab', [
    [user, 'gitlab:user:root'],
    ['Impersonate-Extra-agent.gitlab.com%2Fusername', 'root'],
  ]),
  shape('a service account', [[user, 'system:serviceaccount:team-a:gitlab']]),
  shape('a service account that is listed', [[user, probe]]),
  shape('listed', [
    [user, 'bob'],
    [group, 'bobs'],
  ]),
  shape('listed, and one that is not', [
    [user, 'bob'],
    [group, 'bobs'],
    [group, 'system:masters'],
  ]),
  shape(
    'lower case',
    masters.map(([name, value]) => [name.toLowerCase(), value]),
  ),
  shape(
    'upper case',
    masters.map(([name, value]) => [name.toUpperCase(), value]),
  ),
  shape(
    'underscores',
    masters.map(([name, value]) => [name.replaceAll('-', '_'), value]),
  ),
  shape('repeated', [
    [user, 'bob'],
    [user, 'mallory'],
    [group, 'bobs'],
    [group, 'system:masters'],
  ]),
  dropped,
  shape('empty', [
    [user, ''],
    [group, ''],
  ]),
  ...carried('watch', `${pods}?watch=1&case=CASE`, [], { isWatch: true }),
  ...carried('WebSocket', exec, webSocket('v5.channel.k8s.io')),
  ...carried('SPDY', exec, spdy, { method: 'POST' }),
  ...carried('views', '/views?view=tree&namespace=shop', []),
  ...carried('views over WebSocket', '/views', webSocket('kas-views-v1')),
  ...carried('state of sources', '/gitops/state', []),
  ...carried('graph', '/graph', webSocket('gitlab-agent-graph-api')),
]

/** Requests for agents whose values differ from others' only in rights. */
export const fewShapes = shapes.filter(({ name }) =>
  [
    'plain',
    'User and Group',
    'a service account',
    'listed',
    'watch, User and Group',
    'WebSocket, User and Group',
  ].includes(name),
)

/** limit of an answer: a view may take long where agentk may list nothing. ms */
const patienceMs = 30_000

export interface Asker {
  readonly url: string
  readonly bearer: string
  /** id of the request in the audit log */
  readonly id: string
  /** a new connection each time: after a refusal kas may close it */
  readonly connections: Agent
}

/** Returns the answer; for an upgrade or a watch only its head, after which the connection is closed. */
export async function ask(
  { url, bearer, id, connections }: Asker,
  { target, method = 'GET', body, headers, isWatch }: Shape,
): Promise<Answer> {
  const json = body === undefined ? undefined : JSON.stringify(body)
  const lines = [
    ['Host', new URL(url).host],
    ['Authorization', `Bearer ${bearer}`],
    ...(json === undefined ? [] : [['Content-Type', 'application/json']]),
    ...(method === 'GET' ? [] : [['Content-Length', String(json?.length ?? 0)]]),
    ...headers,
  ]
  const sent = request(`${url}${target.replace('CASE', id)}`, {
    agent: connections,
    method,
    headers: lines.flat(),
    signal: AbortSignal.timeout(patience(patienceMs)),
  })
  sent.end(json)
  const upgraded = once(sent, 'upgrade').then(([answer]) => ({ answer: answer as IncomingMessage, isOpen: true }))
  const answered = once(sent, 'response').then(([answer]) => ({ answer: answer as IncomingMessage, isOpen: false }))
  upgraded.catch(() => undefined)
  try {
    const { answer, isOpen } = await Promise.race([upgraded, answered])
    const status = answer.statusCode ?? 0
    if (isOpen || (isWatch && status === 200)) return { status, body: '' }
    return { status, body: await text(answer) }
  } finally {
    sent.destroy()
  }
}
