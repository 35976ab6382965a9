import { once } from 'node:events'
import { rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { create } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { extract } from 'tar-stream'
import { ndjsonFormat } from '../../src/kas/modules/gitops/preview/ndjson-format.ts'
import { terraformFormat } from '../../src/kas/modules/gitops/preview/terraform-format.ts'
import { textFormat } from '../../src/kas/modules/gitops/preview/text-format.ts'
import { PreviewEndSchema, PreviewedObjectSchema } from '../../src/proto/gen/gitops_preview_pb.ts'
import { CiExample } from '../support/ci-example.ts'
import { NotesDouble } from '../support/gitlab/notes-double.ts'
import { GitWorkTree } from '../support/work-tree.ts'
import { gitops } from '../unit/kas/cli/usual-answers.ts'

/** The jobs of deploy/gitops-example/.gitlab-ci.yml in a shell, beside servers that answer as kas and GitLab. */

const mergeRequest = '$CI_PIPELINE_SOURCE == "merge_request_event"'
const [jobToken, botToken] = ['glcbt-secret', 'glpat-secret']

const sent = {
  '-T': 'file',
  'manifests/new.yaml': 'file',
  'manifests/page.yaml': 'file',
  'manifests/link.yaml': 'symlink',
}

interface Asked {
  readonly url: string
  readonly authorization: string | undefined
  readonly files: Readonly<Record<string, string>>
}

async function filesIn(request: IncomingMessage): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  const reader = extract()
  reader.on('entry', ({ name, type }, content, next) => {
    found[name] = type
    content.on('end', () => next()).resume()
  })
  for await (const chunk of request) reader.write(chunk)
  reader.end(null)
  await once(reader as unknown as NodeJS.EventEmitter, 'finish')
  return found
}

/** @param failing - the change fails */
async function start(t: Test, failing: boolean) {
  const folder = t.testdir({ clone: {} })
  const example = await CiExample.read(folder)
  const tree = await GitWorkTree.create(t, { 'manifests/page.yaml': 'a: 1\n', '-T': 'x' })
  await symlink('page.yaml', join(tree.path, 'manifests/link.yaml'))
  await tree.git('add', '--all')
  const head = await tree.commit({ 'manifests/new.yaml': 'b: 1\n' })
  const asked: Asked[] = []
  const object = create(PreviewedObjectSchema, {
    key: { kind: 'ConfigMap', namespace: 'shop', name: 'page' },
    action: failing ? 'fails' : 'changed',
    file: 'manifests/page.yaml',
    line: 1,
    field: [{ path: '.data.a', kind: 'changed' }],
  })
  const end = create(PreviewEndSchema, { objects: 2, changed: 1, created: 1, failing: failing ? 1 : 0, commit: head })
  const preview = { source: '42-7', objects: [object], end }
  const server = createServer(async (request, response) => {
    const { url = '', headers } = request
    if (!url.includes('/gitops/diff')) {
      const [usual] = gitops.sources
      return void response.end(
        JSON.stringify({ sources: [{ ...usual, source: '42-7', project: 'demo/clusters', name: '' }] }),
      )
    }
    asked.push({ url, authorization: headers.authorization, files: await filesIn(request) })
    const format = new URL(url, 'http://kas').searchParams.get('format')
    const write = { ndjson: ndjsonFormat, text: textFormat, terraform: terraformFormat }[format as 'text']
    const type = format === 'ndjson' ? 'application/x-ndjson' : 'text/plain'
    response.writeHead(failing ? 422 : 200, { 'content-type': type }).end(write(preview))
  })
  t.teardown(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/k8s-proxy`
  const gitlab = await NotesDouble.start(t, 'projects/1/merge_requests/2')
  gitlab.users.set(botToken, 10)
  const kubeconfig = JSON.stringify({
    clusters: [{ name: 'c', cluster: { server: address } }],
    users: [{ name: 'u', user: { token: `ci:42:${jobToken}` } }],
    contexts: [{ name: 'demo/clusters:demo', context: { cluster: 'c', user: 'u' } }],
  })
  const config = join(folder, 'config')
  await writeFile(config, kubeconfig)
  const variables = {
    CI_API_V4_URL: gitlab.url,
    CI_PROJECT_ID: '1',
    CI_PROJECT_PATH: 'demo/clusters',
    CI_MERGE_REQUEST_IID: '2',
    CI_PIPELINE_ID: '100',
    CI_COMMIT_SHA: head,
    CI_JOB_TOKEN: jobToken,
    KUBECONFIG: config,
    KUBE_CONTEXT: 'demo/clusters:demo',
    KAS_URL: address,
    AGENT_ID: '42',
    SOURCE_ID: '42-7',
  }
  const run = (name: string, more: Record<string, string> = {}) =>
    example.run(name, tree.path, { ...variables, ...more })
  return { example, run, asked, gitlab, tree }
}

t.test('with kas: the job log, the note and the report', async (t) => {
  const { run, asked, gitlab } = await start(t, false)
  const withNote = await run('preview', { GITLAB_TOKEN: botToken })
  t.match(withNote, {
    code: 0,
    stderr: '',
    stdout: /^changed: 1\n {2}ConfigMap shop\/page {2}manifests\/page\.yaml:1$/m,
  })
  t.strictSame(JSON.parse(withNote.report ?? ''), { create: 1, update: 1, delete: 0 })
  t.match(gitlab.notes, [{ body: /^<!-- kas diff agent=42 source=42-7 pipeline=100 -->/ }])
  t.match(asked, [{ authorization: `Bearer ci:42:${jobToken}` }, { url: /format=ndjson$/ }])
  t.strictSame(asked[0]?.files, sent)
  const without = await run('preview')
  t.match(without, {
    code: 0,
    stderr: /^kas diff: no note: GITLAB_TOKEN is not set; the token of the job cannot write notes\n/m,
  })
  for (const { stdout, stderr, report } of [withNote, without]) t.notMatch(`${stdout}${stderr}${report}`, /secret/)
})

t.test('with curl: the same report, and the same files', async (t) => {
  const { run, asked } = await start(t, false)
  const result = await run('preview with curl')
  t.match(result, { code: 0, stderr: '', stdout: /^changed: 1\n {2}ConfigMap shop\/page/m })
  t.strictSame(JSON.parse(result.report ?? ''), { create: 1, update: 1, delete: 0 })
  t.match(asked, [
    { url: '/k8s-proxy/gitops/diff?source=42-7&format=text', authorization: `Bearer ci:42:${jobToken}` },
    { url: '/k8s-proxy/gitops/diff?source=42-7&format=terraform' },
  ])
  t.strictSame(asked[0]?.files, sent)
})

t.test('the user of the image does not own the files of the job', async (t) => {
  const { run } = await start(t, false)
  const other = { GIT_TEST_ASSUME_DIFFERENT_OWNER: '1' }
  for (const name of ['preview', 'preview with curl']) {
    t.match(await run(name, other), { code: 0 }, name)
    const refused = await run(name, { ...other, GIT_CONFIG_COUNT: '0' })
    t.match(refused, { stderr: /dubious ownership/ }, name)
    t.not(refused.code, 0)
  }
})

t.test('a change that fails ends both jobs, and its text is in the job log', async (t) => {
  const { run, gitlab } = await start(t, true)
  t.match(await run('preview', { GITLAB_TOKEN: botToken }), { code: 4, stdout: /^fails: 1\n {2}ConfigMap shop\/page/m })
  t.match(gitlab.notes, [{ body: /fails/ }])
  t.match(await run('preview with curl'), { code: 22, stdout: /^fails: 1\n {2}ConfigMap shop\/page/m })
})

t.test('a tracked file that is gone ends the job with curl: it would send less than the commit', async (t) => {
  const { run, tree } = await start(t, false)
  await rm(join(tree.path, 'manifests/new.yaml'))
  t.match(await run('preview with curl'), { code: 2, stderr: /manifests\/new\.yaml: Cannot stat/ })
})

t.test('the jobs of a merge request, and the one of the default branch', async (t) => {
  const { example } = await start(t, false)
  t.strictSame(example.jobsWith(mergeRequest), ['preview', 'preview with curl'])
  t.strictSame(example.jobsWith('$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH'), ['wait'])
})
