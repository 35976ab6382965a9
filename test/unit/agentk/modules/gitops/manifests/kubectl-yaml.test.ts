import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readFiles } from '../../../../../../src/agentk/modules/gitops/manifests/read-yaml.ts'
import { Seeded } from '../../../../../support/seeded.ts'

/** Random YAML: kubectl and agentk read the same. */

const kubectl = join(process.env.KUBEBUILDER_ASSETS ?? '', 'kubectl')
const withKubectl = existsSync(kubectl) ? {} : { skip: 'KUBEBUILDER_ASSETS has no kubectl' }

const letters = [...'0123456789abefxoyn_+-.eET~ ntuluse']
const words = [
  'y',
  'No',
  'on',
  '~',
  '0644',
  '0x1f',
  '.5',
  '12:30:45',
  '2020-01-01',
  '-0',
  '1_0',
  "it's",
  'http://a/b',
  '<<',
]
const written = [
  "'it''s'",
  "'0644'",
  "' a: b #c'",
  '"\\x41\\u263A\\t\\e"',
  '!!str 1',
  '!!int 7',
  '!!float 1',
  '!foo x',
  '""',
]

class RandomYaml {
  readonly #random: Seeded

  constructor(random: Seeded) {
    this.#random = random
  }

  document(): string {
    const head = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: b}}\n'
    return `${head}data:${this.#block(0, '  ')}\n`
  }

  #some(make: (index: number) => string): string[] {
    return Array.from({ length: 1 + this.#random.int(3) }, (_, index) => make(index))
  }

  #scalar(): string {
    const kind = this.#random.int(5)
    if (kind === 0) return this.#random.pick(words)
    if (kind === 1) return this.#random.pick(written)
    if (kind === 2) return JSON.stringify(this.#random.text(10).replaceAll('\0', ''))
    const plain = Array.from({ length: 1 + this.#random.int(7) }, () => this.#random.pick(letters))
      .join('')
      .trim()
    return /^$|^-( |$)|^---|^\.\.\./.test(plain) ? 'plain' : plain
  }

  #lines(indent: string): string {
    const lines = this.#some(() => this.#random.pick(['a', ' b', '', '- x', 'k: v', '# no']))
    const style = this.#random.pick(['|', '>', '|-', '>-', '|+', '>+'])
    return ` ${style}\n${['first', ...lines].map((line) => line && indent + line).join('\n')}`
  }

  #block(depth: number, indent: string): string {
    const kind = depth === 0 ? 3 : depth > 3 ? this.#random.int(2) : this.#random.int(6)
    if (kind === 0) return this.#lines(`${indent}  `)
    if (kind === 1) return ` ${this.#scalar()}${this.#random.chance(0.1) ? ' # comment' : ''}`
    if (kind === 2) return ` ${this.#flow(depth)}`
    const begin = (index: number) => (kind === 3 ? `k${index}:` : '-')
    return `\n${this.#some((index) => indent + begin(index) + this.#block(depth + 1, `${indent}  `)).join('\n')}`
  }

  #flow(depth: number): string {
    const kind = depth > 3 ? 0 : this.#random.int(4)
    if (kind < 2) return this.#scalar()
    if (kind === 2) return `[${this.#some(() => this.#flow(depth + 1)).join(', ')}]`
    return `{${this.#some((index) => `k${index}: ${this.#flow(depth + 1)}`).join(', ')}}`
  }
}

t.test('kubectl reads the same of random YAML', withKubectl, async (t) => {
  const yaml = new RandomYaml(Seeded.for(t))
  const texts = Array.from({ length: 200 }, () => yaml.document())
  const input = texts.join('---\n')
  const { stdout, stderr } = spawnSync(kubectl, ['label', '--local', '-f', '-', 'a=b', '--overwrite', '-o', 'json'], {
    input,
    encoding: 'utf8',
    env: { KUBECONFIG: '/dev/null' },
    maxBuffer: 64 * 1024 * 1024,
  })
  t.equal(stderr, '')
  const theirs = stdout.split(/^(?=\{$)/m).map((text) => JSON.parse(text))
  const { documents, problems } = readFiles([{ path: 'a.yaml', data: Buffer.from(input) }])
  t.strictSame(problems, [])
  t.equal(documents.length, texts.length)
  for (const [at, { object }] of documents.entries()) t.strictSame(object, theirs[at], texts[at] ?? '')
})
