import { readdir, readFile, stat } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { kindKey, parseApiVersion } from '../../../../kubernetes/kind.ts'
import { kindWord } from '../../../../kubernetes/kind-words.ts'
import { viewsBounds } from '../../../../proto/views-json.ts'
import { type CliIo, UsageError } from '../../../command/command.ts'

/** bytes of all files together */
const maxBytes = 16 * 1024 * 1024
const extensions: ReadonlySet<string> = new Set(['.yaml', '.yml', '.json'])
/** Namespace of an object that names none, as in kubectl. */
const usualNamespace = 'default'

/** An object to judge. */
export interface Target {
  /** word for its kind; from a manifest `group/Kind` */
  readonly kind: string
  /** undefined: any namespace, or none */
  readonly namespace?: string
  readonly name: string
  /** in the output of `kubectl apply -o json`: objects of older generations are not judged */
  readonly uid?: string
  readonly generation?: number
}

/**
 * Reads objects from files, from the files of folders, and from stdin (`-`): YAML or JSON, lists too.
 *
 * @param namespace - for objects that name none
 * @throws UsageError that names the wrong file
 */
export async function readManifests(
  files: readonly string[],
  stdin: CliIo['stdin'],
  namespace = usualNamespace,
): Promise<readonly Target[]> {
  const targets = new Map<string, Target>()
  let room = maxBytes
  for (const file of files) {
    for await (const [name, text] of textsOf(file, stdin)) {
      room -= text.length
      if (room < 0) throw new UsageError(`-f: more than ${maxBytes} bytes`)
      for (const target of targetsIn(name, text, namespace)) {
        targets.set(JSON.stringify([target.kind, target.namespace, target.name]), target)
      }
    }
  }
  const { maxObjects } = viewsBounds
  if (targets.size === 0) throw new UsageError(`-f ${files.join(' -f ')}: there is no object`)
  if (targets.size > maxObjects)
    throw new UsageError(`-f: ${targets.size} objects, and at most ${maxObjects} are judged`)
  return [...targets.values()]
}

async function* textsOf(file: string, stdin: CliIo['stdin']): AsyncIterable<readonly [name: string, text: string]> {
  if (file === '-') {
    yield ['stdin', await textIn(stdin)]
    return
  }
  try {
    const isFolder = (await stat(file)).isDirectory()
    const names = isFolder ? (await readdir(file)).filter((name) => extensions.has(extname(name))).sort() : ['']
    for (const name of names) {
      const path = name === '' ? file : join(file, name)
      yield [path, await readFile(path, 'utf8')]
    }
  } catch (cause) {
    throw new UsageError(`-f ${file}: ${(cause as Error).message}`, { cause })
  }
}

async function textIn(stdin: CliIo['stdin']): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of stdin) {
    chunks.push(Buffer.from(chunk as Uint8Array))
    bytes += chunk.length
    if (bytes > maxBytes) throw new UsageError(`-f -: more than ${maxBytes} bytes`)
  }
  return Buffer.concat(chunks).toString('utf8')
}

type Block = Readonly<Record<string, unknown>>

function* targetsIn(file: string, text: string, namespace: string): Iterable<Target> {
  const documents = parseAllDocuments(text, { logLevel: 'error' })
  if (!Array.isArray(documents)) return // the text has no document
  for (const document of documents) {
    const [error] = document.errors
    if (error) throw wrong(file, error)
    let object: unknown
    try {
      object = document.toJS() // too many aliases are refused
    } catch (cause) {
      throw wrong(file, cause as Error)
    }
    yield* targetsOf(file, object, namespace)
  }
}

function wrong(file: string, cause: Error): UsageError {
  return new UsageError(`-f ${file}: ${cause.message.split('\n')[0]}`, { cause })
}

function* targetsOf(file: string, object: unknown, namespace: string): Iterable<Target> {
  if (object === null || object === undefined) return
  const { kind, items } = object as Block
  if (typeof kind === 'string' && kind.endsWith('List') && Array.isArray(items)) {
    for (const item of items) yield* targetsOf(file, item, namespace)
  } else yield targetOf(file, object as Block, namespace)
}

function targetOf(file: string, object: Block, namespace: string): Target {
  const { apiVersion, kind } = object
  const metadata = (object.metadata ?? {}) as Block
  const { name, uid, generation } = metadata
  if (typeof apiVersion !== 'string' || typeof kind !== 'string' || typeof name !== 'string' || name === '') {
    throw new UsageError(`-f ${file}: an object has apiVersion, kind and metadata.name`)
  }
  const key = kindKey(parseApiVersion(apiVersion).group, kind)
  const own = typeof metadata.namespace === 'string' ? metadata.namespace : ''
  const [builtIn] = kindWord(key).builtIn
  const place = own || (builtIn?.isNamespaced ? namespace : '') // only the agent knows the scope of other kinds
  return {
    kind: key,
    name,
    ...(place === '' ? {} : { namespace: place }),
    ...(typeof uid === 'string' ? { uid } : {}),
    ...(typeof generation === 'number' ? { generation } : {}),
  }
}
