import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { readFiles } from '../../src/agentk/modules/gitops/manifests/read-yaml.ts'
import { buildGoProgram, withoutGo } from '../support/go-program.ts'
import { files, valueFile, values } from '../support/yaml-corpus.ts'

/** Manifests as Kubernetes' own library reads them, and as kas does. */

/** Files that kubectl accepts and kas refuses; doc/guide/gitops.md, "Read", has the reasons. */
const refusedOnPurpose =
  /twice|kept exactly|no UTF-8|a key of a map is text|ends a line for kubectl|too many|too deep|too large|more than/

/**
 * Files that kas accepts and kubectl does not: `[::1]`, a document on the line of `---`, a directive, `1E400` in JSON.
 */
const takenAlone = ['JSON 6', 'colons in brackets 11', 'directives 1', 'directives 2', 'documents 12']

interface Answer {
  readonly objects: readonly unknown[] | null
  readonly error?: string
}

/** Parses JSON; whole numbers keep their digits. */
function parse(json: string): Answer {
  return JSON.parse(json, (_, value, { source } = { source: '' }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source ?? '') ? BigInt(source) : value,
  )
}

async function readByGo(paths: readonly string[]): Promise<Answer[]> {
  const program = spawn(await buildGoProgram('yaml-go'), { stdio: ['pipe', 'pipe', 'inherit'] })
  const exited = once(program, 'exit')
  program.stdin.end(paths.map((path) => `${path}\n`).join(''))
  const printed = await text(program.stdout)
  if ((await exited)[0] !== 0) throw new Error(`the reader ended with ${(await exited)[0]}`)
  return printed.trimEnd().split('\n').map(parse)
}

interface Difference {
  readonly path: string
  readonly theirs: unknown
  readonly ours: unknown
}

/** Files with different results, and those that only one of both accepts. */
interface Differences {
  readonly differ: Difference[]
  readonly refused: Difference[]
  readonly taken: Difference[]
}

async function compare(paths: readonly string[]): Promise<Differences> {
  const all: Differences = { differ: [], refused: [], taken: [] }
  for (const [index, theirs] of (await readByGo(paths)).entries()) {
    const path = paths[index] ?? ''
    const { documents, problems } = readFiles([{ path, data: await readFile(path) }])
    const ours = problems.length > 0 ? problems : documents.map(({ object }) => object)
    if (theirs.error !== undefined) {
      if (problems.length === 0) all.taken.push({ path, theirs: theirs.error, ours })
    } else if (problems.length > 0) all.refused.push({ path, theirs: theirs.objects, ours })
    else if (!isDeepStrictEqual(ours, theirs.objects)) all.differ.push({ path, theirs: theirs.objects, ours })
  }
  return all
}

const isOnPurpose = ({ ours }: Difference) =>
  (ours as readonly { readonly text: string }[]).every(({ text }) => refusedOnPurpose.test(text))

const withGo = withoutGo ? { skip: withoutGo } : {}

t.test('each form of the corpus, to equal values', withGo, async (t) => {
  const folder = t.testdir()
  const paths: string[] = []
  for (const [form, texts] of [
    ...Object.entries(values).map(([form, texts]) => [form, texts.map(valueFile)] as const),
    ...Object.entries(files),
  ]) {
    for (const [index, content] of texts.entries()) {
      const path = join(folder, `${form} ${index + 1}.yaml`)
      await writeFile(path, content)
      paths.push(path)
    }
  }
  t.ok(paths.length >= 150, `${paths.length} files`)
  const { differ, refused, taken } = await compare(paths)
  t.strictSame(differ, [])
  t.strictSame(
    refused.filter((one) => !isOnPurpose(one)),
    [],
  )
  t.strictSame(taken.map(({ path }) => basename(path, '.yaml')).sort(), takenAlone)
})

const { KAS_YAML_CORPUS: corpus } = process.env
const withCorpus = corpus ? withGo : { skip: 'KAS_YAML_CORPUS names no folder' }

t.test('each file of a folder', withCorpus, async (t) => {
  const found = await readdir(corpus ?? '', { recursive: true, withFileTypes: true })
  const paths = found
    .filter((entry) => entry.isFile() && /\.(?:ya?ml|json)$/.test(entry.name) && !/[\n\r]/.test(entry.parentPath))
    .map((entry) => join(entry.parentPath, entry.name))
  const { differ, refused } = await compare(paths)
  t.comment(`${paths.length} files; refused on purpose: ${refused.filter(isOnPurpose).length}`)
  t.strictSame(differ, [])
  t.strictSame(
    refused.filter((one) => !isOnPurpose(one)),
    [],
  )
})
