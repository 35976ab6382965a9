import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type JqLine, jqLines } from '../../../../dev/output/jq-lines.ts'
import type { Cause, Row, Update } from '../../../../src/proto/views-json.ts'
import { absent } from '../../../support/absent.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { at, fullEventList, fullList, fullTree } from '../modules/views/cli/full-view.ts'
import { startViewsServer } from '../modules/views/cli/views-server.ts'
import { run, startHostileServer } from './hostile-server.ts'
import { fullSource, fullState, unreportedSource } from './source-samples.ts'
import { agents, directory, line, pathLine, sessions, status } from './usual-answers.ts'

/** Runs each jq line of doc/reference/output.md and checks that it answers its question. */

const skip = absent('jq') && 'needs jq'

const [agent] = agents.agents
const [member] = status.members
const [replica] = sessions.replicas
const [session] = replica?.sessions ?? []
const bob = { ...session, caller: { ...session?.caller, name: 'bob' } }
const [user] = directory.users

/** Lines of the access log, as `kas log -o json` prints them. */
const logLines = [
  { ...line, event: 'end', subresource: undefined, outcome: 'answered' },
  { ...line, event: 'begin', class: 'exec', resource: 'pods', name: 'web-1' },
  { ...line, event: 'end', verb: 'delete', subresource: undefined },
  { ...line, event: 'end', verb: 'delete', subresource: undefined, class: 'refusal', status: 403 },
  pathLine,
  { ...pathLine, count: 3 },
]
const failing = {
  ...fullSource,
  project: 'platform/mail',
  phase: 'FAILING',
  polled: { ...fullSource.polled, commit: fullSource.commit },
}

/** answers of a server or a socket, the same for every path */
const answers: Readonly<Record<string, unknown>> = {
  log: logLines,
  'gitops status': {
    ...fullState,
    sources: [fullSource, { ...failing, leaving: [], environment: [], trouble: [] }, unreportedSource],
  },
  agents: {
    ...agents,
    agents: [agent, { ...agent, id: '8', name: 'edge', pods: 0, connected: [] }, { ...agent, id: '9', name: 'test' }],
  },
  status: { ...status, members: [member, { ...member, name: 'kas-2', reach: 'down' }] },
  sessions: { replicas: [{ ...replica, sessions: [session, bob, session] }], unreached: [] },
}
const files = {
  'directory.yaml': { ...directory, users: [user, { id: 2, username: 'bob', roles: {} }] },
  'kas.yaml': { directory: { file: 'directory.yaml' }, agent: { listen: { address: 7 } } },
}

const cause = (reason: string, text: string, sinceMs: number): Cause => {
  return { kind: 'Pod', namespace: 'shop', name: 'a', id: 'a', reason, text, since: at - sinceMs, next: '' }
}
const pod = (n: string, f: readonly string[], z?: Cause): Row => {
  const verdict = z ? 'Degraded' : 'Healthy'
  return { u: n, k: 'Pod', ns: 'shop', n, h: [verdict, 'Current', verdict], f, ...(z ? { z } : {}) }
}
const image = 'container app: image registry.example/app:2.14.1: not found'
const pods = [
  pod('web', ['Running', '1/1 ready', '2 restarts', 'node worker-1']),
  pod('mail', ['ImagePullBackOff', '0/1 ready', 'node worker-2'], cause('ImageNotFound', image, 60_000)),
  pod('pay', ['Running', '0/1 ready', '14 restarts', 'node worker-2'], cause('OOMKilled', 'exit code 137', 240_000)),
  pod('cart', ['Running', '0/1 ready', '1 restart', 'node worker-3'], cause('OOMKilled', 'exit code 137', 120_000)),
]
const podList: Omit<Update, 'at'> = {
  seq: 1,
  rows: pods,
  pages: { '': { order: pods.map(({ u }) => u), counts: { Healthy: 1, Degraded: 3 }, more: 0 } },
  state: { is: 'live', since: at },
}
const { refused: _, ...readable } = fullTree.state ?? { is: 'live', since: at }
const healthy = { ...readable, aside: [] }

const views: Readonly<Record<string, Omit<Update, 'at'>>> = {
  'get pods': podList,
  'get deployments': fullList,
  tree: fullTree,
  'get events': fullEventList,
  health: { ...fullTree, state: { ...healthy, unknown: [] } },
}

const expected: Readonly<Record<string, string>> = {
  'agents that are away': 'edge',
  'agents of each replica': 'kas-0 2',
  'Pods that are degraded': 'shop/mail\nshop/pay\nshop/cart',
  'Pods by reason': 'ImageNotFound 1\nOOMKilled 2',
  'images that cannot be pulled': 'registry.example/app:2.14.1',
  'the Pod that has been in trouble for longest': 'pay 2025-11-22T05:36:00.000Z',
  'the Pod with most restarts': 'pay',
  'nodes on which Pods fail': 'worker-2\nworker-3',
  'what is at fault, for each Deployment': 'web: Pod/web-6d4b9-x7k2p',
  'what to read next': 'kubectl -n shop logs web-6d4b9-x7k2p -c app --previous',
  'how many are degraded': '2',
  'whether it is so now': 'false',
  'what you may not list': 'secrets in shop\nanything in all namespaces',
  'kinds that cannot be listed, and why': 'Pod: conversion webhook is down\n*: service unavailable',
  'what belongs to a Deployment': 'Pod/web-6d4b9-x7k2p\nPod/*',
  'applications with trouble below': 'shop',
  'Warnings by reason': 'BackOff 12',
  'events of a Pod': '2025-11-22T05:39:55.000Z Back-off restarting failed container',
  'why it is not healthy': 'web: OOMKilled\nworker-3: OOMKilled',
  'what becomes degraded, as it happens': 'web',
  'users without a role': 'bob',
  'tokens that end before a day': 'user ada',
  'sessions of each user': 'ada 2\nbob 1',
  'replicas that are not reached': 'kas-2',
  'Pods in trouble by namespace': 'shop 3',
  'what mounts a Secret': 'Deployment/web',
  'links to what is not there, or may not be seen': 'web mounts Secret/db',
  'sources that fail': 'platform/mail: it waits',
  'objects that could not be applied, and why': 'Deployment/web: no',
  'files with a fault': 'a.yaml:3: no\nb.yaml:-: no YAML',
  'plans that wait for approval': '42-7-web abc',
  'what a plan deletes': 'Namespace/shop',
  'sources behind the head of their branch': 'platform/shop',
  'the commit in each environment': '7/production aaaaaaaa',
  'who deleted what': '2026-11-26T18:00:00.000Z ada deployments/web',
  'who ran a program in which Pod': 'ada shop/web-1: sh',
  'what CI jobs have changed': 'job 900: create deployments/web\njob 900: delete deployments/web',
  'who was refused, and how often': '10.0.0.7 4\nada 1',
  'tokens without an end': 'aaaaaaaa\ncccccccc',
  'callers that had more than their share': 'user 7: 3 refused',
  'what is wrong in a configuration': 'kas.yaml: agent.listen.address: found 7, allowed: a text',
}

for (const asked of jqLines) {
  t.test(`kas ${asked.kas} | jq: ${asked.question}`, { skip }, async (t) => {
    const json = await printed(t, asked)
    const { stdout, stderr } = spawnSync('sh', ['-c', `jq ${asked.jq}`], { input: json, encoding: 'utf8' })
    t.equal(stderr, '')
    t.equal(stdout.trimEnd(), expected[asked.question])
  })
}

t.test('each question has its answer', async (t) => {
  t.strictSame(jqLines.map(({ question }) => question).sort(), Object.keys(expected).sort())
})

async function printed(t: Test, { kas }: JqLine): Promise<string> {
  const argv = [...kas.split(' '), '-o', 'json']
  const view = Object.entries(views).find(([words]) => kas.startsWith(words))
  if (view) return await printedView(t, argv, view[1])
  const { play, folder } = await startHostileServer(t)
  const texts = [answers[kas]].flat().map((one) => `${JSON.stringify(one)}\n`)
  play.answer = () => ({ body: texts.join('') })
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), JSON.stringify(content))
  return (await run(argv, { env: { KAS_OPS_SOCKET: kas.startsWith('check') ? '' : 'ops' } })).stdout
}

async function printedView(t: Test, argv: readonly string[], update: Omit<Update, 'at'>): Promise<string> {
  const { viewer, runWith } = await startViewsServer(t)
  const { said, code, interrupt } = runWith({ clock: new ManualClock(at) }, ...argv)
  const one = await viewer()
  await one.request(({ type }) => type === 'open')
  one.update(update)
  if (argv.includes('--watch')) {
    while (!said.stdout.includes('"complete":true')) await new Promise(setImmediate)
    interrupt()
  }
  await code
  return said.stdout
}
