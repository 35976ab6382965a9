import { flagsOf, type Place, type PlaceOption } from './command-tree.ts'

/** Quotes a text: no word, flag or value of the tables has a character with a meaning in these quotes. */
const quoted = (text: string) => `'${text}'`

/** Steps from a place to the next one: ` agent`, `agent create`. */
const steps = (places: readonly Place[]) =>
  places.flatMap(({ at }) => (at === '' ? [] : [quoted(at.includes(' ') ? at : ` ${at}`)]))

const proposals = ({ words, options }: Place) => [...words, ...options.flatMap(flagsOf)].join(' ')

/** Patterns such as `tree|--output`: the place, and the word before. */
const before = (at: string, options: readonly PlaceOption[]) =>
  options.flatMap((option) => flagsOf(option).map((flag) => quoted(`${at}|${flag}`)))

const withValues = (places: readonly Place[]) =>
  places.flatMap(({ at, options }) =>
    options.flatMap((option) => (option.values ? [{ at, option, values: option.values.join(' ') }] : [])),
  )

const withAnyValue = (places: readonly Place[]) =>
  places.flatMap(({ at, options }) =>
    before(
      at,
      options.filter(({ takesValue, values }) => takesValue && !values),
    ),
  )

/** bash completion. Where an option takes any value, bash proposes files. */
export function bashScript(places: readonly Place[]): string {
  return `# bash completion for kas: source <(kas completion bash)
_kas() {
  local cur=\${COMP_WORDS[COMP_CWORD]} at= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
      ${steps(places).join('|')}) at="\${at:+$at }\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$at|\${COMP_WORDS[COMP_CWORD - 1]}" in
${withValues(places)
  .map(
    ({ at, option, values }) =>
      `    ${before(at, [option]).join('|')}) COMPREPLY=($(compgen -W '${values}' -- "$cur")); return ;;\n`,
  )
  .join('')}    ${withAnyValue(places).join('|')}) return ;;
  esac
  case "$at" in
${places.map((one) => `    '${one.at}') COMPREPLY=($(compgen -W '${proposals(one)}' -- "$cur")) ;;\n`).join('')}  esac
}
complete -o default -F _kas kas
`
}

export function zshScript(places: readonly Place[]): string {
  return `#compdef kas
# zsh completion for kas: source <(kas completion zsh), or this as the file _kas in a folder of $fpath
_kas() {
  local at= i
  for ((i = 2; i < CURRENT; i++)); do
    case "$at $words[i]" in
      (${steps(places).join('|')}) at="\${at:+$at }$words[i]" ;;
    esac
  done
  case "$at|$words[CURRENT-1]" in
${withValues(places)
  .map(({ at, option, values }) => `    (${before(at, [option]).join('|')}) compadd -- ${values}; return ;;\n`)
  .join('')}    (${withAnyValue(places).join('|')}) _files; return ;;
  esac
  case "$at" in
${places.map((one) => `    ('${one.at}') compadd -- ${proposals(one)} ;;\n`).join('')}  esac
}
if [[ "$funcstack[1]" == _kas ]]; then
  _kas
else
  compdef _kas kas
fi
`
}

export function fishScript(places: readonly Place[]): string {
  return `# fish completion for kas: kas completion fish | source
function __kas_is_at
  set -l at ''
  set -l typed (commandline -opc)
  set -e typed[1]
  for word in $typed
    switch "$at $word"
      case ${steps(places).join(' ')}
        set at (string trim -- "$at $word")
    end
  end
  test "$at" = "$argv[1]"
end
complete -c kas -e
${places.map(fishLines).join('')}`
}

function fishLines({ at, words, options }: Place): string {
  const here = `complete -c kas -n "__kas_is_at '${at}'"`
  const lines = options.map(({ name, short, takesValue, values }) => {
    const flags = `-l ${name}${short === undefined ? '' : ` -s ${short}`}`
    return `${here} ${flags}${values ? ` -x -a '${values.join(' ')}'` : takesValue ? ' -r' : ''}`
  })
  const first = words.length > 0 ? [`${here} -f -a '${words.join(' ')}'`] : []
  return [...first, ...lines].map((line) => `${line}\n`).join('')
}
