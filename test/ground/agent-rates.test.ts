import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import type { AgentMethod, MethodRate } from '../../src/kas/agent-method.ts'
import type { KasModule } from '../../src/kas/module.ts'
import { createAgentTracker } from '../../src/kas/modules/agent-tracker/module.ts'
import { createConfiguration } from '../../src/kas/modules/configuration/module.ts'
import { createFlux } from '../../src/kas/modules/flux/module.ts'
import { createGitlabAccess } from '../../src/kas/modules/gitlab-access/module.ts'
import { createGitops } from '../../src/kas/modules/gitops/module.ts'
import { createViews } from '../../src/kas/modules/views/module.ts'
import { agentMethodRates } from '../../src/kas/servers/agents/agents-server.ts'
import type { OwnMethod } from '../../src/kas/servers/agents/call-admission.ts'
import { shortName } from '../../src/kas/servers/agents/limits/agent-rates.ts'
import { bareGitlab, fakeHost } from '../support/fake-host.ts'

/**
 * Each method that an agent may call has a rate. Types refuse a method without one, and doc/operate/operations.md names each.
 */

const root = join(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')

const planted = { type: 'unary', patient: false, serve: async () => undefined } as const
// @ts-expect-error 'rate' is missing
export const ofModule: AgentMethod = planted
// @ts-expect-error 'rate' is missing
export const ofServer: OwnMethod = planted

t.test('a planted method without a rate: the compiler names it', async (t) => {
  const source = `
    import type { KasModule } from '${root}/src/kas/module.ts'
    import type { OwnMethod } from '${root}/src/kas/servers/agents/call-admission.ts'
    const serve = async () => undefined
    export const planted: KasModule = {
      name: 'planted',
      agentMethods: { '/planted.Module/Call': { type: 'unary', patient: false, serve } },
    }
    export const own: Readonly<Record<string, OwnMethod>> = { '/planted.Server/Call': { type: 'unary', serve } }
  `
  const options = { extends: join(root, 'tsconfig.json'), include: ['planted.ts'] }
  const typeRoots = [join(root, 'node_modules/@types')]
  const folder = t.testdir({
    'planted.ts': source,
    'tsconfig.json': JSON.stringify({ ...options, compilerOptions: { typeRoots } }),
  })
  const said = await new Promise<string>((resolve) => {
    execFile(join(root, 'node_modules/.bin/tsc'), ['--noEmit', '-p', folder], (_, output) => resolve(output))
  })
  const errors = said.split('\n').filter((line) => line.includes('planted.ts('))
  t.equal(errors.length, 2, said)
  for (const [i, error] of errors.entries()) {
    t.match(error, /Property 'rate' is missing in type .* but required in type '(AgentMethod|OwnMethod)'/)
    const line = Number(/\((\d+),/.exec(error)?.[1])
    t.match(source.split('\n')[line - 1], i === 0 ? '/planted.Module/Call' : '/planted.Server/Call')
  }
})

t.test('doc/operate/operations.md says what each method may cost', async (t) => {
  const described = read('doc/operate/operations.md')
    .split('\n')
    .map((line) => /^\| `([A-Z]\w+\/\w+)` \| ([\d,]+), ([\d,]+) \| ([\d.]+), ([\d.]+), ([\d.]+) \|/.exec(line))
    .filter((row) => row !== null)
    .map(([, method = '', ...numbers]) => {
      const [perSecond, burst, call, message, kib] = numbers.map((text) => Number(text.replaceAll(',', '')))
      return [method, { perSecond, burst, cost: { call, message, kib } } as MethodRate] as const
    })
  const served = Object.entries(agentMethodRates(agentMethods(t))).map(
    ([method, { perSecond, burst, cost }]) => [shortName(method), { perSecond, burst, cost }] as const,
  )
  const byName = (rows: readonly (readonly [string, MethodRate])[]) =>
    [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, rate]) => `${name}: ${JSON.stringify(rate)}`)
  t.ok(served.length > 8)
  t.strictSame(byName(described), byName(served))
})

/** Methods of all modules, with GitLab configured. */
function agentMethods(t: Test): Record<string, AgentMethod> {
  const host = fakeHost({ gitlab: bareGitlab })
  const tracker = createAgentTracker(host)
  const limits = { maxPaths: 1, maxFiles: 1, maxFileBytes: 1, maxTotalBytes: 1, roundsBytes: 1, keptBytes: 1 }
  const modules: Record<string, KasModule | undefined> = {
    'agent-tracker': tracker,
    configuration: createConfiguration(host, tracker, { gitlabExternalUrl: '', pollMs: 1 }),
    flux: createFlux(host),
    'gitlab-access': createGitlabAccess(host),
    gitops: createGitops(host, { pollMs: 1, ...limits }),
    views: createViews(host, { pollMs: 1 }),
  }
  const folders = globSync('src/kas/modules/*/module.ts', { cwd: root }).filter((file) =>
    read(file).includes('agentMethods'),
  )
  t.strictSame(folders.map((file) => basename(dirname(file))).sort(), Object.keys(modules).sort())
  return Object.assign({}, ...Object.values(modules).map((module) => module?.agentMethods))
}
