import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import type { AgentId, Call } from '../../../src/call/call.ts'
import { noMetadata } from '../../../src/call/call.ts'
import type { Agent } from '../../../src/kas/agent.ts'
import type { AgentConfiguration } from '../../../src/kas/agent-config/agent-config-reader.ts'
import { AgentQuestions } from '../../../src/kas/modules/gitops/agent-questions.ts'
import { previewEndpoint } from '../../../src/kas/modules/gitops/preview-endpoint.ts'
import { noPeers } from '../../../src/kas/peers/peers.ts'
import type { CommitId } from '../../../src/kas/repositories/repositories.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { PreviewRequestSchema, PreviewResponseSchema } from '../../../src/proto/gen/gitops_preview_pb.ts'
import { SourceStateSchema } from '../../../src/proto/gen/gitops_states_pb.ts'
import { AccessLines } from '../../support/access-lines.ts'
import { tarOf } from '../../support/tar.ts'
import { startServer } from './start-server.ts'

/** Previews by git, tar and curl, as a job without kas in its image makes them. */

const bash = promisify(execFile)
const agent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 3n, path: 'platform/shop' } }
const planted = 'PLANTED-7f3a'

type Request = NonNullable<ReturnType<typeof requestOf>>
const requestOf = (bytes: Uint8Array) => fromBinary(PreviewRequestSchema, bytes).what

/** Starts a server with an agent that answers with this end. */
async function start(t: Test, end: object = { objects: 2, changed: 1, commit: 'c0ffee' }) {
  const requests: Request[] = []
  const answers: NonNullable<MessageInitShape<typeof PreviewResponseSchema>['what']>[] = [
    {
      case: 'object',
      value: {
        key: { kind: 'ConfigMap', namespace: 'shop', name: 'web' },
        action: 'changed',
        file: 'deploy/web.yaml',
        line: 1,
        field: [{ path: '.data.a', kind: 'changed', before: `"${planted}"`, after: '"b"' }],
      },
    },
    { case: 'end', value: end },
  ]
  const forward = async ({ messages }: Call) => {
    for await (const bytes of messages) requests.push(requestOf(bytes))
    return {
      metadata: Promise.resolve(noMetadata),
      messages: (async function* () {
        for (const what of answers) yield toBinary(PreviewResponseSchema, create(PreviewResponseSchema, { what }))
      })(),
      done: Promise.resolve({ trailers: noMetadata }),
    }
  }
  const state = toBinary(SourceStateSchema, create(SourceStateSchema, { project: agent.project.path }))
  const value = { manifest_projects: [{ paths: [{ glob: 'deploy/*.yaml' }] }] }
  const good = { commit: 'c1' as CommitId, since: 0, blocks: new Map([['gitops', { json: '', value }]]) }
  const followed = { agent, error: undefined, readAt: 0, hasFeature: () => true }
  const questions = new AgentQuestions({ forward, serves: () => true, away: () => undefined, clock: systemClock })
  const endpoint = previewEndpoint(
    {
      states: { of: () => new Map(['42-3', '42-9'].map((id) => [id, { bytes: state, at: 0, live: true }])) },
      agentConfig: { followed: () => ({ ...followed, good: good as unknown as AgentConfiguration }) },
      peers: noPeers,
      clock: systemClock,
      localDirectory: undefined,
      questions,
    },
    { maxFiles: 1000, maxFileBytes: 5 * 1024 ** 2, maxTotalBytes: 20 * 1024 ** 2 },
  )
  const access = new AccessLines()
  const components = { endpoints: [endpoint], accessLog: access.log }
  const started = await startServer(forward, {}, undefined, components)
  t.teardown(() => started.server.stop(AbortSignal.abort()))
  const url = (query: string) => `http://127.0.0.1:${started.port}/k8s-proxy/gitops/diff?${query}`
  return { ...started, access, requests, url }
}

/** Makes a checkout, with a file that Git does not track. */
function checkout(t: Test): string {
  const folder = t.testdir({
    deploy: { 'web.yaml': `a: ${planted}\n`, 'link.yaml': t.fixture('symlink', 'web.yaml') },
    'README.md': 'read me\n',
    untracked: { 'x.yaml': 'x' },
  })
  writeFileSync(join(folder, '.gitignore'), 'untracked\n')
  writeFileSync(join(folder, 'large.bin'), Buffer.alloc(3 * 1024 ** 2)) // curl waits for 100 Continue
  return folder
}

/** Runs a command in a folder. @returns its exit code, and what it has printed */
async function run(cwd: string, command: string) {
  return await bash('bash', ['-o', 'pipefail', '-ec', command], { cwd }).then(
    ({ stdout }) => ({ code: 0, stdout }),
    ({ code, stdout }: { code: number; stdout: string }) => ({ code, stdout }),
  )
}

const token = "-H 'Authorization: Bearer ci:42:as-job'"
const pack = 'git init -q && git add . && git ls-files -z | tar --null --no-recursion -T - -c'

t.test('git, tar and curl preview what Git tracks, with a length and in chunks', async (t) => {
  for (const send of ['--data-binary @-', '-X POST -T -', "-H 'Transfer-Encoding: chunked' --data-binary @-"]) {
    const { requests, url } = await start(t)
    const { code, stdout } = await run(
      checkout(t),
      `${pack} | curl -sS --fail-with-body ${token} ${send} '${url('source=42-3')}'`,
    )
    t.equal(code, 0)
    t.match(stdout, /^source 42-3: compared with commit c0ffee\n[\s\S]*ConfigMap shop\/web {2}deploy\/web\.yaml:1/)
    t.notMatch(stdout, planted)
    const files = requests.flatMap((one) =>
      one.case === 'file' ? [[one.value.path, `${Buffer.from(one.value.data)}`]] : [],
    )
    t.strictSame(files, [
      ['deploy/web.yaml', `a: ${planted}\n`],
      ['deploy/link.yaml', `a: ${planted}\n`],
    ])
  }
})

t.test('the access log has a write with the source, and its id is that of the cluster’s audit log', async (t) => {
  const { access, requests, url } = await start(t)
  await run(
    checkout(t),
    `${pack} | curl -sS ${token} --data-binary @- '${url('source=42-3&format=ndjson&values=true')}'`,
  )
  const [line] = await access.count(1)
  t.match(line, {
    class: 'write',
    verb: 'post',
    status: 200,
    path: '/gitops/diff',
    view: 'source 42-3',
    caller: { project: '3' },
  })
  const [begin] = requests
  t.equal(begin?.case === 'begin' && begin.value.auditId, line?.id)
  t.notMatch(access.text, planted)
})

t.test('a change that would be refused fails the job, and its text is printed', async (t) => {
  const { url } = await start(t, { objects: 2, failing: 1, refusal: { text: 'unknown kind', file: 'a.yaml', line: 2 } })
  const { code, stdout } = await run(
    checkout(t),
    `${pack} | curl -sS --fail-with-body ${token} --data-binary @- '${url('source=42-3')}'`,
  )
  t.equal(code, 22)
  t.match(stdout, 'The commit would be refused: a.yaml:2: unknown kind')
})

t.test('a job of another project is refused, and told what to set', async (t) => {
  const { access, requests, url } = await start(t)
  const { code, stdout } = await run(
    checkout(t),
    `${pack} | curl -sS --fail-with-body ${token} --data-binary @- '${url('source=42-9')}'`,
  )
  t.equal(code, 22)
  t.match(stdout, 'only jobs and users of project 9 may preview changes of source')
  t.match(await access.count(1), [{ class: 'refusal', status: 403, view: 'source 42-9' }])
  t.equal(requests.length, 0)
})

t.test('a large body that is refused at once does not hide the text', async (t) => {
  const { url } = await start(t)
  for (const send of ['--data-binary @-', '-X POST -T -', "-H 'Expect:' --data-binary @-"]) {
    const command = `head -c 50000000 /dev/zero | curl -sS --fail-with-body ${token} ${send} '${url('source=42-9')}'`
    const { code, stdout } = await run(t.testdir({}), `set +o pipefail; ${command}`)
    t.equal(code, 22, send)
    t.match(stdout, 'Add the number of your project', send)
  }
})

t.test('a tar that is refused while it comes does not hide the text', async (t) => {
  const { url } = await start(t)
  const folder = t.testdir({})
  const bad = tarOf([{ name: '../x' }, { name: 'large.bin', data: Buffer.alloc(50_000_000) }])
  writeFileSync(join(folder, 'bad.tar'), bad)
  for (const send of ['--data-binary @bad.tar', '-X POST -T bad.tar', "-H 'Expect:' --data-binary @bad.tar"]) {
    const { code, stdout } = await run(folder, `curl -sS --fail-with-body ${token} ${send} '${url('source=42-3')}'`)
    t.equal(code, 22, send)
    t.match(stdout, '\\"../x\\": its path leads out of the repository', send)
  }
})

t.test('nothing of a tar that is refused is in a log', async (t) => {
  const { access, log, url } = await start(t)
  const tar = tarOf([
    { name: 'deploy/a.yaml', data: planted },
    { name: '../x', data: planted },
  ])
  for (const body of [tar, tar.subarray(0, 700), Buffer.from(planted.repeat(100))]) {
    const headers = { Authorization: 'Bearer ci:42:as-job' }
    const answer = await fetch(url('source=42-3'), { method: 'POST', headers, body })
    t.equal(answer.status, 400)
    t.notMatch(await answer.text(), planted)
  }
  await access.count(3)
  t.notMatch(`${access.text}${log.join('')}`, planted)
})
