import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { create } from '@bufbuild/protobuf'
import type { Test } from 'tap'
import { extract } from 'tar-stream'
import { ndjsonFormat } from '../../../../../../../src/kas/modules/gitops/preview/ndjson-format.ts'
import { PreviewEndSchema, PreviewedObjectSchema } from '../../../../../../../src/proto/gen/gitops_preview_pb.ts'
import { startKasCli } from '../../../../../../support/kas-cli.ts'
import { GitWorkTree } from '../../../../../../support/work-tree.ts'
import { gitops } from '../../../../cli/usual-answers.ts'

export type End = Parameters<typeof create<typeof PreviewEndSchema>>[1] & object
export type Shown = Parameters<typeof create<typeof PreviewedObjectSchema>>[1] & object

const [usual] = gitops.sources as [(typeof gitops.sources)[number]]
export const source = (id: string, more: object = {}) => ({
  ...usual,
  source: id,
  project: 'platform/shop',
  name: '',
  ...more,
})

/** Answer of kas about one source. */
export function answer(id: string, end: End, objects: readonly Shown[] = []): string {
  const shown = objects.map((one) => create(PreviewedObjectSchema, one))
  return ndjsonFormat({ source: id, objects: shown, end: create(PreviewEndSchema, end) })
}

interface Played {
  readonly sources?: readonly object[]
  /** other keys of the status */
  readonly state?: object
  /** answers by source; absent: nothing would change */
  readonly answers?: Readonly<Record<string, End>>
  readonly serve?: (request: IncomingMessage, response: ServerResponse) => void
  readonly objects?: readonly Shown[]
  readonly args?: readonly string[]
  readonly files?: Readonly<Record<string, string>>
  readonly env?: Readonly<Record<string, string>>
}

/** As kas answers: a preview has other statuses too. */
const statusOf = ({ failing = 0, refusal, problem = '', notCompared = 0 }: End) =>
  failing > 0 || refusal ? 422 : problem !== '' ? 409 : notCompared > 0 ? 403 : 200

/** Runs `kas diff` in a repository of `platform/shop`. */
export async function play(t: Test, played: Played = {}) {
  const { sources = [source('42-7')], state = {}, answers = {}, objects = [], args = [], env = {} } = played
  const tree = await GitWorkTree.create(t, played.files ?? { 'a.yaml': 'a: 1\n' })
  await tree.git('remote', 'add', 'origin', 'git@gitlab.example.com:platform/shop.git')
  const asked: { method: string; url: string; headers: IncomingMessage['headers']; files: string[] }[] = []
  const { io, printed, run } = await startKasCli(t, async (request, response) => {
    const { url = '', method = '', headers } = request
    if (!url.includes('/gitops/diff')) return void response.end(JSON.stringify({ ...gitops, sources, ...state }))
    if (played.serve) return played.serve(request, response)
    const files = await namesIn(request)
    asked.push({ method, url, headers, files })
    const id = new URL(url, 'http://x').searchParams.get('source') ?? ''
    const end = { objects: 1, commit: await tree.git('rev-parse', 'HEAD'), ...answers[id] }
    response.writeHead(statusOf(end), { 'content-type': 'application/x-ndjson' }).end(answer(id, end, objects))
  })
  Object.assign(io.env, { PATH: process.env.PATH }, env)
  const code = await run('diff', tree.path, ...args)
  return { code, asked, tree, ...printed }
}

async function namesIn(request: IncomingMessage): Promise<string[]> {
  const names: string[] = []
  const reader = extract()
  reader.on('entry', ({ name }, content, next) => {
    names.push(name)
    content.on('end', () => next()).resume()
  })
  reader.end(await buffer(request))
  await once(reader as unknown as NodeJS.EventEmitter, 'finish')
  return names
}

const web = { group: 'apps', version: 'v1', kind: 'Deployment', namespace: 'shop', name: 'web' }
export const changed: Shown = {
  key: web,
  action: 'changed',
  file: 'a.yaml',
  line: 3,
  field: [{ path: '.spec.replicas', kind: 'changed' }],
}
