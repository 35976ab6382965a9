import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { FileSet } from '../../../../src/agentk/modules/gitops/render/file-set.ts'
import { helmArguments } from '../../../../src/agentk/modules/gitops/render/helm.ts'
import { Renderer } from '../../../../src/agentk/modules/gitops/render/renderer.ts'
import { RenderFailure } from '../../../../src/agentk/modules/gitops/render/renderer-process.ts'
import { type InstalledRenderer, installedRenderers, printedBy } from '../../../support/renderers.ts'
import { type HiddenWay, helmWays, kustomizeWays, type Trap } from './hidden-ways.ts'

/** Ways to hide a key or an address from the checks, tried with the real programs, which keep the network here. */

const helm = { chart: 'prod', values: [], release: 'shop' }
const cluster = { version: 'v1.35.4', apiVersions: ['apps/v1'] }
const { signal } = new AbortController()
const filesOf = ({ files }: HiddenWay) =>
  Object.entries(files).map(([path, data]) => ({ path, data: Buffer.from(data) }))
const text = (files: readonly { readonly data: Uint8Array }[]) =>
  files.map(({ data }) => Buffer.from(data).toString()).join('')

/** A port that counts requests, and a folder next to those of the renderings. */
class TrapGround {
  readonly folder: string
  readonly trap: Trap
  readonly #server
  requests = 0

  static async set(t: Test): Promise<TrapGround> {
    const marked = 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: OUTSIDE }\n'
    const folder = t.testdir({
      outside: {
        'kustomization.yaml': 'resources: [map.yaml]',
        'map.yaml': marked,
        component: {
          'kustomization.yaml': 'apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [map.yaml]',
          'map.yaml': marked,
        },
        generators: {
          'kustomization.yaml': 'resources: [g.yaml]',
          'g.yaml': 'apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: { name: OUTSIDE }\nliterals: [a=b]\n',
        },
        'schema.json': JSON.stringify({ required: ['OUTSIDE'] }),
      },
    })
    const server = createServer((request, response) => {
      ground.requests++
      response.end(
        request.url?.startsWith('/schema.json')
          ? '{}'
          : 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: fetched }\n',
      )
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.close())
    const { port } = server.address() as AddressInfo
    const trap = {
      address: `http://127.0.0.1:${port}`,
      outside: '../../../outside',
      outsidePath: join(folder, 'outside'),
    }
    const ground = new TrapGround(folder, trap, server)
    return ground
  }

  private constructor(folder: string, trap: Trap, server: ReturnType<typeof createServer>) {
    this.folder = folder
    this.trap = trap
    this.#server = server
  }

  /** @returns names of the traps that were reached meanwhile */
  async during(work: () => Promise<string>): Promise<string[]> {
    this.requests = 0
    const said = await work()
    this.#server.closeIdleConnections()
    return [...(this.requests > 0 ? ['the port'] : []), ...(said.includes('OUTSIDE') ? ['the folder outside'] : [])]
  }
}

/** Runs the program as the renderer does, without the checks. */
async function unchecked(
  ground: TrapGround,
  program: string,
  args: readonly string[],
  way: HiddenWay,
): Promise<string> {
  const base = await mkdtemp(join(ground.folder, 'unchecked-'))
  for (const { path, data } of filesOf(way)) {
    await mkdir(dirname(join(base, 'files', path)), { recursive: true })
    await writeFile(join(base, 'files', path), data)
  }
  try {
    const run = { program, args, folder: join(base, 'files'), home: base }
    return (await printedBy(run, signal)).toString()
  } catch (error) {
    if (error instanceof RenderFailure) return error.message
    throw error
  }
}

async function tryAll(
  t: Test,
  { name, folder }: InstalledRenderer,
  ground: TrapGround,
  ways: readonly HiddenWay[],
  options: Parameters<Renderer['render']>[1],
  argsOf: (way: HiddenWay) => readonly string[],
): Promise<number> {
  const program = join(folder, options.helm ? 'helm' : 'kustomize')
  const renderer = new Renderer({ path: folder, folder: ground.folder, keepsNetwork: true })
  let reaching = 0
  for (const way of ways) {
    const without = await ground.during(() => unchecked(ground, program, argsOf(way), way))
    if (without.length > 0) reaching++
    let refused = ''
    const reached = await ground.during(async () => {
      const { files, problems } = await renderer.render(filesOf(way), options, cluster, signal)
      refused = problems.map(({ text }) => text).join('; ')
      return text(files) + refused
    })
    t.strictSame(
      reached,
      [],
      `${way.name}: ${refused || 'rendered'}${without.length > 0 ? `, else reaches ${without}` : ''}`,
    )
  }
  t.comment(`${name}: ${reaching} of ${ways.length} ways reach the port or the folder without the checks, 0 with them`)
  return reaching
}

const kustomizes = installedRenderers('kustomize')
const none = { skip: 'KAS_RENDERERS names no folder with it' }
t.test('kustomize', kustomizes.length > 0 ? {} : none, async (t) => {
  for (const renderer of kustomizes) {
    await t.test(renderer.name, async (t) => {
      const ground = await TrapGround.set(t)
      const options = { kustomize: { path: 'prod' }, defaultNamespace: 'shop' }
      const reaching = await tryAll(t, renderer, ground, kustomizeWays(ground.trap), options, () => ['build', './prod'])
      t.ok(reaching >= 10, 'the trap works')
    })
  }
})

const helms = installedRenderers('helm')
t.test('helm', helms.length > 0 ? {} : none, async (t) => {
  for (const renderer of helms) {
    await t.test(renderer.name, async (t) => {
      const ground = await TrapGround.set(t)
      const options = { helm, defaultNamespace: 'shop' }
      const argsOf = (way: HiddenWay) => helmArguments(new FileSet(filesOf(way)), helm, 'shop', cluster)
      const reaching = await tryAll(t, renderer, ground, helmWays(ground.trap), options, argsOf)
      t.ok(reaching >= 3, 'the trap works')

      const schema = {
        $id: `${ground.trap.address}/a#b`,
        properties: { color: { $ref: '#/x' } },
        x: { type: 'string' },
      }
      const [plain] = helmWays(ground.trap)
      const files = { ...plain?.files, 'prod/values.schema.json': JSON.stringify(schema) }
      const render = (more: HiddenWay['files']) => {
        const chart = filesOf({ name: 'a schema with a name', files: { ...files, ...more } })
        return new Renderer({ path: renderer.folder, keepsNetwork: true }).render(chart, options, cluster, signal)
      }
      const rendered = await render({})
      t.strictSame(rendered.problems, [])
      t.match(text(rendered.files), /name: red/, 'a schema with a name is no hindrance')
      t.match((await render({ 'prod/values.yaml': 'color: 1\n' })).problems, [{ text: /string/ }], 'and counts')
    })
  }
})
