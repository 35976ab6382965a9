import type { Identity } from '../kubectl-side.ts'

/** First commands of a new user, with their answers: the table of doc/reference/first-words.md. */

export interface FirstWords {
  /** words after `kas`; kubectl gets the same `get …`, unless `kubectl` replaces it */
  readonly argv: string
  readonly as?: Identity
  readonly code: number
  /** words of kubectl; absent: as `argv`, if that is a `get` */
  readonly kubectl?: string
  /** kubectl's exit code where it differs from ours, with the reason */
  readonly kubectlCode?: readonly [code: number, why: string]
  readonly out?: RegExp
  readonly err?: RegExp
  /** both print the same lines */
  readonly isSame?: true
}

const may = 'it shows all namespaces in which one may list'
const followed = 'the agent does not follow it'
const ada = /you are gitlab:user:ada \(groups gitlab:user, .*\) and may not list /

export const firstWords: readonly FirstWords[] = [
  { argv: 'get pods -n shop', code: 0, out: /^ {2}NAME +READY +REASON +SINCE +AGE +CULPRIT +FACTS\n. web-/ },
  { argv: 'get po -A', code: 0, out: /^ {2}NAMESPACE +NAME/ },
  { argv: 'get pod -n shop', code: 0, out: /web-/ },
  { argv: 'get Pods -n shop', code: 0, out: /web-/ },
  { argv: 'get deploy -n shop', code: 0, out: /✓ web +\d\/\d / },
  { argv: 'get deployments.apps -n shop', code: 0, out: /web/ },
  { argv: 'get deployment.v1.apps -n shop', code: 0, out: /web/ },
  { argv: 'get apps/Deployment -n shop', kubectl: '', code: 0, out: /web/ },
  { argv: 'get deploy web -n shop', code: 0, out: /web/ },
  { argv: 'get deploy/web -n shop', code: 0, out: /web/ },
  { argv: 'get deploy web nope -n shop', code: 1, out: /web/, err: /deploy\/nope is not found in shop/ },
  { argv: 'get deploy/nope -n shop', code: 1, err: /deploy\/nope is not found in shop/ },
  {
    argv: 'get deploy,svc -n shop',
    code: 0,
    out: /Deployment\/web[\s\S]*Service\/web|Service\/web[\s\S]*Deployment\/web/,
  },
  { argv: 'get all -n shop', code: 0, out: /Deployment\/web/ },
  { argv: 'get rs -n shop', code: 0, out: /web-/ },
  { argv: 'get no', code: 0, out: /NAME/ },
  { argv: 'get nodes -n shop', code: 0, out: /NAME/ },
  { argv: 'get ns', code: 0, out: /shop/ },
  { argv: 'get ns shop', code: 0, out: /shop/ },
  { argv: 'get cm -n shop', code: 0, out: /kube-root-ca.crt/ },
  { argv: 'get sa -n shop', code: 0, out: /default/ },
  { argv: 'get secrets -n shop', code: 1, err: /Secret is not followed by the agent/ },
  { argv: 'get ep -n shop', code: 1, kubectlCode: [0, followed], err: /Endpoints is not followed/ },
  { argv: 'get widgets -n shop', code: 0, out: /one/ },
  { argv: 'get wd -n shop', code: 0, out: /one/ },
  { argv: 'get widgets.example.com/one -n shop', code: 0, out: /one/ },
  { argv: 'get pdos', code: 1, err: /no kind is called "pdos", or none that you may list; did you mean pods\?/ },
  { argv: 'get wdgets', code: 1, err: /did you mean widgets\?/ },
  { argv: 'get po -l app=web -n shop', code: 0, out: /web-/ },
  { argv: 'get po -l app=none -n shop', code: 0, err: /no po found in shop/ },
  { argv: 'get po -l app=in=web -n shop', code: 1, err: /"labels" is a selector/ },
  { argv: 'get po -n nowhere', code: 0, err: /no po found in nowhere/ },
  { argv: 'get po -n shop -o name', code: 0, isSame: true },
  { argv: 'get deploy,svc -n shop -o name', code: 0, isSame: true },
  { argv: 'get po -n shop -o wide', code: 0, out: /ARGO +KSTATUS +WHY/ },
  { argv: 'get po -n shop -o json', code: 0, out: /"items": \[\n/ },
  { argv: 'get po -n shop -o yaml', code: 0, out: /^items:\n/m },
  { argv: 'get po -n shop --sort name', kubectl: 'get po -n shop --sort-by=.metadata.name', code: 0, out: /web-/ },
  { argv: 'get events -n shop', code: 0, out: /Deployment\/web +Scaled up replica set/ },
  { argv: 'get ev -A', code: 0, out: /Scaled up/ },
  { argv: 'get', code: 2, kubectlCode: [1, 'as all commands of kas have it'], err: /KIND is missing/ },
  { argv: 'get po/x svc', code: 2, kubectlCode: [1, 'as all commands of kas have it'], err: /stands beside others/ },
  { argv: 'tree -n shop', code: 0, out: /✓ Deployment\/web {2}2\/2 ready/ },
  { argv: 'tree deploy/web -n shop', code: 0, out: /^✓ Deployment\/web .*\n└─ ✓ ReplicaSet\/web-\w+/ },
  { argv: 'tree deploy/nope -n shop', code: 1, err: /deploy\/nope is not found in shop/ },
  { argv: 'tree --environment 7/production', code: 1, err: /app.gitlab.com\/environment_slug=production/ },
  { argv: 'tree --application 42-1', code: 0, out: /Deployment\/web/ },
  { argv: 'health deploy/web -n shop', code: 0, out: /^✓ healthy \(1 healthy\)\n/ },
  { argv: 'health deploy/nope -n shop --wait 2s', code: 5, out: /○ deploy\/nope is not there/ },
  { argv: 'get po -n shop', as: 'user', code: 0, out: /web-/ },
  { argv: 'get po -n bank', as: 'user', code: 1, err: new RegExp(`${ada.source}pods in bank`) },
  { argv: 'get po -n nowhere', as: 'user', code: 1, err: new RegExp(`${ada.source}pods in nowhere`) },
  { argv: 'get po -A', as: 'user', code: 0, kubectlCode: [1, may], out: /shop +web-/ },
  { argv: 'get no', as: 'user', code: 1, err: new RegExp(`${ada.source}nodes: ask an administrator`) },
  { argv: 'get widgets -n shop', as: 'user', code: 1, err: /no kind is called "widgets", or none that you may list\n/ },
  { argv: 'tree -n bank', as: 'user', code: 1, err: new RegExp(`${ada.source}anything in bank`) },
  { argv: 'tree', as: 'ci_job', code: 1, err: /you are gitlab:ci_job:901 \(.*may not list anything in any namespace/ },
  { argv: 'health -n bank', as: 'user', code: 1, err: ada },
]

/** kubectl's words beside it, and its exit code. */
export function answerOf({ argv, code, kubectl, kubectlCode }: FirstWords) {
  const theirs = kubectl ?? (argv.startsWith('get') ? argv : '')
  return theirs === '' ? undefined : { argv: theirs, code: kubectlCode?.[0] ?? code, why: kubectlCode?.[1] ?? '' }
}

/** Formats the table as rows of Markdown. */
export function rowsOf(all: readonly FirstWords[]): string {
  const lines = all.map((one) => {
    const { argv, as = 'agent', code, err, out } = one
    const says = err ?? (code === 0 ? undefined : out)
    const theirs = answerOf(one)
    const words = theirs && theirs.argv !== argv ? `\`${theirs.argv}\`: ` : ''
    const beside = theirs ? `${words}${theirs.code}${theirs.why ? `, ${theirs.why}` : ''}` : ''
    return `| \`${argv}\` | ${who[as]} | ${code} | ${says ? plain(says) : 'rows'} | ${beside} |\n`
  })
  return lines.join('')
}

const who: Readonly<Record<Identity, string>> = {
  agent: '',
  user: 'user',
  ci_job: 'CI job',
  impersonate: 'impersonated',
}

/** Returns the sentence that a pattern matches. */
const plain = ({ source }: RegExp) =>
  source.replaceAll('\\n', '').replaceAll('.*', '…').replaceAll(/\\(.)/g, '$1').trim()
