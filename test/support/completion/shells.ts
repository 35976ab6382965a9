import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Shell } from './found-shell.ts'

/** Proposals of real shells after a typed line. */

/** @param typed - lines that end where the tab is pressed. @returns proposals, by line */
export type Propose = (typed: readonly string[]) => ReadonlyMap<string, readonly string[]>

/** limit of a shell. ms */
const timeout = 60_000

/** @param folder - for files. @param script - output of `kas completion` */
export function proposalsOf(shell: Shell, folder: string, script: string): Propose {
  const file = join(folder, `kas.${shell.name}`)
  writeFileSync(file, script)
  return { bash: inBash, zsh: inZsh, fish: inFish }[shell.name](shell, folder, file)
}

function run({ program, env }: Shell, args: readonly string[], input?: string): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8', timeout, env, input })
  if (status !== 0) throw new Error(`${program}: ${status} ${stderr}`, { cause: error })
  return stdout
}

/** Parses `== kas agent `, then one proposal a line. */
function byLine(text: string): ReadonlyMap<string, readonly string[]> {
  const parts = text.split(/^== /m).slice(1)
  return new Map(
    parts.map((part) => {
      const [typed = '', ...proposed] = part.split('\n')
      return [typed, proposed.map((one) => one.split('\t')[0] ?? '').filter((one) => one !== '')]
    }),
  )
}

const inBash =
  (shell: Shell, _: string, file: string): Propose =>
  (typed) => {
    const asked = typed.map((line) => {
      const words = line.split(' ').map((word) => `'${word}'`)
      return `COMP_WORDS=(${words.join(' ')}) COMP_CWORD=${words.length - 1}
$(complete -p kas | sed 's/.*-F \\([^ ]*\\) kas$/\\1/') kas
printf '%s\\n' '== ${line}' "\${COMPREPLY[@]}"\n`
    })
    return byLine(run(shell, ['--norc'], `source '${file}'\n${asked.join('')}`))
  }

const inFish =
  (shell: Shell, folder: string, file: string): Propose =>
  (typed) => {
    const asked = typed.map((line) => `echo '== ${line}'\ncomplete -C '${line}'\n`)
    const asking = join(folder, 'asking.fish')
    writeFileSync(asking, `source '${file}'\n${asked.join('')}`)
    return byLine(run(shell, ['--no-config', asking]))
  }

/** Runs an interactive shell at a terminal of its own, and presses the tab key in it. */
const inZsh =
  (shell: Shell, folder: string, file: string): Propose =>
  (typed) => {
    const said = join(folder, 'said')
    const inner = join(folder, 'inner.zsh')
    const outer = join(folder, 'outer.zsh')
    writeFileSync(said, '')
    writeFileSync(
      inner,
      `PROMPT= RPROMPT= PS2=
autoload -Uz compinit && compinit -u -D
source '${file}'
compadd() {
  local -a hits
  builtin compadd -A hits "$@"
  print -rl -- $hits >> '${said}.part'
  return 1
}
note() {
  print -r -- "== $BUFFER" >> '${said}'
  [[ -e '${said}.part' ]] && { cat '${said}.part' >> '${said}'; rm '${said}.part' }
  BUFFER=
}
zle -N note
bindkey '^I' complete-word
bindkey '^X' note
zle-line-init() { print -r -- READY }
zle -N zle-line-init
`,
    )
    const keys = typed.map((line) => `zpty -w -n shell $'${line}\\t\\x18'\nzpty -r -t shell drained\n`)
    writeFileSync(
      outer,
      `zmodload zsh/zpty
zpty shell '${shell.program} -i'
zpty -w shell ' source ${inner}'
zpty -r -m shell begun '*READY*'
${keys.join('')}
zpty -w -n shell $'\\x04'
while zpty -r shell drained; do :; done
`,
    )
    run(shell, [outer])
    return byLine(readFileSync(said, 'utf8'))
  }
