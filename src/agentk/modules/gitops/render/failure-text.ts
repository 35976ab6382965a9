import { basename } from 'node:path/posix'
import type { RepositoryFile } from '../manifests/manifest.ts'
import { hiddenValue, mayMakeSecret } from '../manifests/secrets.ts'

/** Command that renders: `kustomize build ./prod`. */
interface RenderCommand {
  /** path of the program */
  readonly program: string
  readonly args: readonly string[]
}

/** Limit of the words of a command that are shown: those of helm that follow are versions and values. */
const maxWords = 3

/** Template of a packed chart, which cannot be read, that by its name makes a Secret. */
const packedTemplate = /\btemplates\/[^\s:"']*secret/i

/** Words beside which kustomize quotes content: `missing path: /data/a`, `repeats the key "a"`, `unknown anchor 'a'`. */
const contentWords = /data|value|literal|key|operation|field|anchor|tag|unmarshal|path: /i

/** Values of a file, as a schema of helm's values and YAML in Go quote them: `'x' does not match`, `` `x` into map``. */
const quotedValue = /'(?:[^'\\\n]|\\.)*'(?= (?:does not match|is not valid))|`[^`\n]*`(?= into )/g

/**
 * Returns the text of a program that has failed, without values. It is not shown if it may quote a Secret, since it names
 * one, or a file that makes one. kustomize often names neither. Then all files count if it quotes content.
 *
 * @param files - of the commit
 */
export function failureText(text: string, { program, args }: RenderCommand, files: readonly RepositoryFile[]): string {
  const name = basename(program)
  const isHelm = name === 'helm'
  const named = files.filter(({ path }) => text.includes(basename(path)))
  const read = isHelm || !contentWords.test(text) ? named : files
  const isOfSecret = /\bSecret\b/.test(text) || (isHelm && named.length === 0 && packedTemplate.test(text))
  if (isOfSecret || read.some(({ data }) => mayMakeSecret(Buffer.from(data).toString()))) {
    const command = [name, ...args.slice(0, maxWords)].join(' ')
    return `${name} fails. Its message may quote a Secret, and is not shown: \`${command}\` prints it`
  }
  return text.replaceAll(quotedValue, hiddenValue)
}
