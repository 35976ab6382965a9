import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { createContext, runInContext } from 'node:vm'
import { commentsIn } from './prose.ts'

/**
 * A number that bounds something: a constant of a file whose name begins with `max`, and each member of such an object.
 * Members `max…` of other constant objects are bounds too, and all numbers of those called limits or bounds. A name
 * for another bound is none.
 */
export interface Bound {
  /** `maxSources`, or `viewsBounds.maxRows` for a member */
  readonly name: string
  /** path below the root */
  readonly file: string
  readonly value: number | bigint
  /** comment above it, or the one of its interface or object, and then the one beside it; empty: there is none */
  readonly comment: string
}

interface Constant {
  /** expression of its value */
  readonly text: string
  /** of the object, for a member */
  readonly type: string
  /** first one: 1 */
  readonly line: number
}

interface Source {
  readonly text: string
  /** by name; members as `object.member` */
  readonly constants: ReadonlyMap<string, Constant>
  /** by the name in this file */
  readonly imports: ReadonlyMap<string, { readonly file: string; readonly name: string }>
}

const constant = /^(?:export )?const (?<name>\w+)(?:: (?<type>[^=\n]+))? =\s+(?<text>\{\n[\s\S]*?^\}|.*)/gm
const member = /(?<name>\w+): (?:(?<open>\{)|(?<text>[^,{}\n]*))|(?<close>\})/g
const scalar = /^[\w.*/+\-<() ]+$/

/** Returns the bounds in TypeScript files below a folder, without generated files, by their paths. */
export function readBounds(root: string): Bound[] {
  const sources = new Sources(root)
  return globSync('**/*.ts', { cwd: root, exclude: ['**/gen/**'] })
    .sort()
    .flatMap((file) => sources.bounds(file))
}

class Sources {
  readonly #root: string
  readonly #read = new Map<string, Source>()
  readonly #context = createContext()

  constructor(root: string) {
    this.#root = root
  }

  /** @throws Error that names a bound whose value cannot be computed */
  bounds(file: string): Bound[] {
    const own = [...this.#source(file).constants].filter(([name, { text }]) => isBound(name) && scalar.test(text))
    return own.flatMap(([name, { text }]) => {
      if (/^[a-z][\w.]*$/i.test(text) && isBound(text)) return []
      const value = this.#valueOf(file, name)
      const isNumber = typeof value === 'bigint' || Number.isFinite(value)
      return isNumber ? [{ name, file, value: value as Bound['value'], comment: this.#commentOf(file, name) }] : []
    })
  }

  #source(file: string): Source {
    const read = this.#read.get(file) ?? sourceOf(file, readFileSync(join(this.#root, file), 'utf8'))
    this.#read.set(file, read)
    return read
  }

  #valueOf(file: string, name: string): unknown {
    const { constants, imports } = this.#source(file)
    const text = constants.get(name)?.text
    if (text !== undefined) return this.#compute(file, text)
    const [object = '', ...members] = name.split('.')
    const from = imports.get(object)
    if (!from) throw new Error(`${file}: the value of ${name} is no constant that can be read`)
    return this.#valueOf(from.file, [from.name, ...members].join('.'))
  }

  #compute(file: string, text: string): unknown {
    const numbers = text.replaceAll(/(?<![\w.])[a-z]\w*(?:\.\w+)*/gi, (name) =>
      /^(?:Math|Number|true|false)\b/.test(name) ? name : String(this.#valueOf(file, name)),
    )
    return runInContext(numbers, this.#context)
  }

  #commentOf(file: string, name: string): string {
    const { text, constants } = this.#source(file)
    const { line = 0, type = '' } = constants.get(name) ?? {}
    const members = name.split('.')
    const member = members.pop() ?? ''
    const object = members.join('.')
    const isOnLineOfObject = constants.get(object)?.line === line
    const { above, beside } = isOnLineOfObject ? noComment : commentAt(text, line)
    const ofType = object === '' || above ? '' : this.#commentOfType(file, type, object, member)
    const first = above || ofType || (object === '' || beside ? '' : this.#commentOf(file, object))
    const sentence = beside.charAt(0).toUpperCase() + beside.slice(1)
    return first === '' || beside === '' ? first + beside : `${first.replace(/[.?!]?$/, '.')} ${sentence}`
  }

  /** Returns the comment of a member in the interface that is the object's type; of defaults without one, in the file. */
  #commentOfType(file: string, type: string, object: string, name: string): string {
    const { text, imports } = this.#source(file)
    if (type === '') return /defaults$/i.test(object) ? memberComment(text, name) : ''
    for (const [word] of type.matchAll(/\w+/g)) {
      const from = imports.get(word)
      const source = from ? this.#source(from.file).text : text
      const [body] = new RegExp(`^(?:export )?interface ${from?.name ?? word}\\b[\\s\\S]*?^\\}`, 'm').exec(source) ?? []
      if (body !== undefined) return memberComment(body, name)
    }
    return ''
  }
}

function isBound(name: string): boolean {
  const [object = '', ...members] = name.split('.')
  const isOfBounds = members.length > 0 && /(?:[Ll]imits|[Bb]ounds)$/.test(object)
  return isOfBounds || /^max/.test(object) || /^max/.test(members.at(-1) ?? '')
}

function sourceOf(file: string, text: string): Source {
  const bare = text
    .replaceAll(/^\s*(?:\/\*[\s\S]*?\*\/|\/\/.*$)/gm, (comment) => comment.replaceAll(/[^\n]/g, ' '))
    .replaceAll(/(?<=[\s;,{(])\/\/ [^'"`\n]*$/gm, '')
  const constants = new Map<string, Constant>()
  for (const { index, groups } of bare.matchAll(constant)) {
    const { name = '', type = '', text = '' } = groups ?? {}
    if (text.includes('=>')) continue
    const lineOf = (at: number) => bare.slice(0, at).split('\n').length
    constants.set(name, { text: text.replace(/ as const$/, '').trim(), type, line: lineOf(index) })
    if (!text.startsWith('{')) continue
    const start = bare.indexOf(text, index)
    const open = [name]
    for (const { index, groups } of text.matchAll(member)) {
      if (groups?.close) {
        open.pop()
        continue
      }
      const path = [...open, groups?.name ?? '']
      const own = groups?.open ?? groups?.text?.trim() ?? ''
      constants.set(path.join('.'), { text: own, type, line: lineOf(start + index) })
      if (groups?.open) open.push(groups?.name ?? '')
    }
  }
  const imports = [...bare.matchAll(/^import (?:type )?\{([^}]*)\} from '(\.[^']+)'/gm)].flatMap(
    ([, names = '', path = '']) =>
      names.split(',').map((one) => {
        const [name = '', local = name] = one
          .trim()
          .replace(/^type /, '')
          .split(' as ')
        return [local, { file: normalize(join(dirname(file), path)), name }] as const
      }),
  )
  return { text, constants, imports: new Map(imports) }
}

interface Comment {
  readonly above: string
  readonly beside: string
}

const noComment: Comment = { above: '', beside: '' }

/** @param line - of a declaration; the first one is 1 */
function commentAt(source: string, line: number): Comment {
  const lines = source.split('\n')
  let first = line
  while (/^\s*(?:\/\*|\*|\/\/)/.test(lines[first - 2] ?? '')) first--
  const found = commentsIn(lines.slice(first - 1, line).join('\n')).map((one) => ({
    ...one,
    line: one.line + first - 1,
  }))
  const textOf = (isBeside: boolean) =>
    found
      .filter((one) => (one.line === line) === isBeside)
      .map(({ text }) => text)
      .join(' ')
  return { above: textOf(false), beside: textOf(true) }
}

/** Returns the first comment of a member of this name in the interfaces of a source. */
function memberComment(source: string, name: string): string {
  const lines = source.split('\n')
  for (const [at, line] of lines.entries()) {
    if (!new RegExp(`^\\s+readonly ${name}\\??: `).test(line)) continue
    const { above, beside } = commentAt(source, at + 1)
    if (above || beside) return above || beside
  }
  return ''
}
