import t, { type Test } from 'tap'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { eventually } from '../../../support/eventually.ts'
import { askLabel, startQuotingWebhook } from '../../../support/quoting-webhook.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { map, RowsSide, source } from './rows-side.ts'

/** No key and no value of a Secret is in state, rows, Events, logs or inventories, whatever goes wrong. */

/** Parts of each key and each value; the last is the value in base64. */
const contents = ['hidden-key', 'hidden-value', 'hidden_key', 'aGlkZGVuLXZhbHVl']
const encoded = 'aGlkZGVuLXZhbHVl'

const secret = (name: string, content: string, metadata = '') =>
  `apiVersion: v1\nkind: Secret\nmetadata: { name: ${name}${metadata && `, ${metadata}`} }\n${content}\n`
const asking = (ask: string) => `labels: { ${askLabel}: ${ask} }`
const plain = 'stringData: { hidden-key: hidden-value }'
const annotated = (name: string, value: string) => `annotations: { ${name}: "${value}" }`
const waits = 'annotations: { config.kubernetes.io/depends-on: /namespaces/shop/Secret/denied }'

/** Commits that are refused, and the text that is shown. */
const refused: Readonly<Record<string, readonly [text: string, shown: RegExp]>> = {
  'a key twice': [secret('a', 'data: { hidden-key: "", hidden-key: "" }'), /^a\.yaml:4: the map has a key twice$/],
  'a key twice in a list': [
    `kind: SecretList\napiVersion: v1\nitems:\n- metadata: { name: a }\n  data: { hidden-key: "", hidden-key: "" }\n`,
    /^a\.yaml:5: the map has a key twice$/,
  ],
  'a value that is no base64': [secret('a', 'data: { hidden-key: hidden-value }'), /: data\.… is no base64/],
  'a value that is no text': [secret('a', 'stringData: { hidden-key: 5 }'), /: stringData\.… is no text/],
  'a value that reads as an alias': [secret('a', 'stringData: { a: *hidden-value }'), /:4: no anchor stands before/],
  'a value that reads as a tag': [secret('a', 'stringData: { a: !hidden-value! x }'), /:4: undeclared tag handle$/],
  'a content in the place of the name': [
    'apiVersion: v1\nkind: Secret\nmetadata: { name: { hidden-key: hidden-value } }\n',
    /: metadata\.name is a map, not text$/,
  ],
  'a wave that is no number': [
    secret('a', plain, annotated('argocd.argoproj.io/sync-wave', 'hidden-value')),
    /: Secret shop\/a: argocd\.argoproj\.io\/sync-wave: \*\*\* is no number$/,
  ],
  'a dependency that is no name': [
    secret('a', plain, annotated('config.kubernetes.io/depends-on', 'hidden-value')),
    /config\.kubernetes\.io\/depends-on: \*\*\* is no </,
  ],
}

const hidden = 'keys and values of Secrets are not shown'
/** Secrets that are refused by themselves, and the texts that are shown. */
const failing: Readonly<Record<string, readonly [text: string, shown: RegExp]>> = {
  key: [secret('key', 'stringData: { "hidden-key a": hidden-value }'), /^data\[…\]: Invalid value; keys and values/],
  tls: [
    secret('tls', 'type: kubernetes.io/tls\nstringData: { hidden-key: hidden-value }'),
    /^data\[…\]: Required value/,
  ],
  typed: [secret('typed', 'data: { hidden-key: 5 }'), new RegExp(hidden)],
  top: [secret('top', 'hidden-key: hidden-value'), new RegExp(hidden)],
  denied: [
    secret('denied', plain, asking('deny')),
    /^admission webhook "deny\.kas\.test" denied the request; data\.…: Invalid value; keys and values/,
  ],
  garbage: [
    secret('garbage', plain, asking('garbage')),
    /failed calling webhook "garbage\.kas\.test"; keys and values/,
  ],
  policy: [
    secret('policy', plain, asking('policy')),
    /^ValidatingAdmissionPolicy 'quoting' with binding 'quoting' denied request; keys and values/,
  ],
  waiting: [
    map('waiting', waits),
    /^Secret shop\/denied has failed: admission webhook "deny\.kas\.test" denied the request; data\.…/,
  ],
}
const failingFiles = Object.fromEntries(Object.entries(failing).map(([name, [text]]) => [`${name}.yaml`, text]))

const admission = 'admissionregistration.k8s.io'
const policy = {
  apiVersion: `${admission}/v1`,
  kind: 'ValidatingAdmissionPolicy',
  metadata: { name: 'quoting' },
  spec: {
    matchConstraints: {
      resourceRules: [
        { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['secrets'] },
      ],
      objectSelector: { matchLabels: { [askLabel]: 'policy' } },
    },
    validations: [{ expression: 'false', messageExpression: '"hidden-key: " + string(object.data["hidden-key"])' }],
  },
}
const binding = {
  apiVersion: `${admission}/v1`,
  kind: 'ValidatingAdmissionPolicyBinding',
  metadata: { name: 'quoting' },
  spec: { policyName: 'quoting', validationActions: ['Deny'] },
}

t.test('texts about Secrets', { skip, timeout: 240_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const webhook = await startQuotingWebhook(t, 'shop')
  await ground.apply(keyOf('ValidatingWebhookConfiguration', 'quoting', '', admission), webhook as never, 'admin')
  await ground.apply(keyOf(policy.kind, 'quoting', '', admission), policy, 'admin')
  await ground.apply(keyOf(binding.kind, 'quoting', '', admission), binding, 'admin')
  for (const ask of ['deny', 'garbage', 'policy']) {
    const probe = { metadata: { name: 'probe', labels: { [askLabel]: ask } }, data: { 'hidden-key': encoded } }
    const dry = '/api/v1/namespaces/shop/secrets?dryRun=All'
    await eventually(async () => {
      const { status, body } = await ground.client.json('POST', dry, probe)
      return status >= 400 && JSON.stringify(body).includes('hidden-')
    })
  }
  const side = new RowsSide(ground, 540n)
  const list = async (resource: string) => {
    const { body } = await ground.client.json('GET', `/api/v1/namespaces/gitops/${resource}`, undefined, undefined, {
      maxBytes: 16 * 1024 * 1024,
    })
    return body as { readonly items: readonly { readonly involvedObject?: { readonly name: string } }[] }
  }
  type Side = Awaited<ReturnType<RowsSide['start']>>
  /** Searches all that agentk has written for the contents, once an Event is there. */
  const search = async (t: Test, { id, project, rows, shown, lines, tracer }: Side) => {
    const hasOwn = async () => (await list('events')).items.some((one) => one.involvedObject?.name.includes(id))
    await eventually(hasOwn)
    const written = {
      states: project.states,
      rows: [...rows().keys()].map((source) => shown(source.slice(id.length))),
      lines,
      spans: tracer.spans,
      events: await list('events'),
      maps: await list('configmaps'),
    }
    for (const [where, what] of Object.entries(written)) {
      const text = JSON.stringify(what, (_, one) => (typeof one === 'bigint' ? String(one) : one))
      for (const content of contents) t.notOk(text.includes(content), `${where}: ${content}`)
    }
  }

  await t.test('a commit that is refused', async (t) => {
    const started = await side.start(t, [source])
    for (const [what, [text, shown]] of Object.entries(refused)) {
      started.project.push({ 'a.yaml': text })
      t.match((await started.becomes(Phase.REFUSED)).problem, shown, what)
    }
    await search(t, started)
    t.ok(started.lines.some(({ msg }) => msg === 'A commit cannot be applied'))
    await started.stop()
  })

  await t.test('objects that are refused, and objects that wait for them', async (t) => {
    for (const block of [source, { ...source, dry_run_strategy: 'server' }]) {
      const started = await side.start(t, [block])
      started.project.push(failingFiles)
      const { trouble } = await started.becomes(Phase.FAILING)
      const isDry = 'dry_run_strategy' in block
      for (const [name, [, shown]] of Object.entries(failing))
        if (!isDry || name !== 'waiting') t.match(trouble.find(({ key }) => key?.name === name)?.text, shown, name)
      await search(t, started)
      if (!isDry) t.ok(started.lines.some(({ msg }) => msg === 'An object was not applied'))
      await started.stop()
    }
  })

  await t.test('a Secret that cannot change, one that others own, and one that cannot be deleted', async (t) => {
    const started = await side.start(t, [{ ...source, prune_limit: '100%', conflicts: 'fail' }])
    const fixed = (value: string) => secret('fixed', `immutable: true\nstringData: { hidden-key: ${value} }`)
    const kept = secret('kept', plain, asking('keep'))
    started.project.push({ 'a.yaml': fixed('hidden-value'), 'b.yaml': kept, 'c.yaml': secret('shared', plain) })
    await started.becomes(Phase.SYNCED)
    const theirs = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'shared' }, data: { 'hidden-key': '' } }
    await ground.apply(keyOf('Secret', 'shared'), theirs, 'robot')
    const shared = secret('shared', 'stringData: { hidden-key: hidden-value-2 }')
    started.project.push({ 'a.yaml': fixed('hidden-value-2'), 'c.yaml': shared })
    const { trouble } = await started.becomes(Phase.FAILING)
    const text = (name: string) => trouble.find(({ key }) => key?.name === name)?.text
    t.match(text('fixed'), /^data: Forbidden; keys and values .*; agent\.gitlab\.com\/replace: allow on it/)
    t.match(text('shared'), /conflicts: fail leaves them: \.data\.… \(robot\); force takes them$/)
    await search(t, started)
    started.project.push({ 'a.yaml': fixed('hidden-value'), 'c.yaml': secret('shared', 'stringData: {}') })
    const { kept: left } = await started.becomes(Phase.FAILING)
    t.match(left, [{ key: { name: 'kept' }, text: /^admission webhook "keep\.kas\.test" denied the request; keys/ }])
    await search(t, started)
    await started.stop()
  })

  await t.test('notes: a second writer, a hook, a variable', async (t) => {
    const started = await side.start(t, [{ ...source, drift: { after: '0s' } }])
    const note = annotated('helm.sh/hook', 'hidden-value')
    const variable = annotated('example.com/token', `\${hidden_key:=hidden-value}`)
    const push = async (count: number) => {
      started.project.push({
        'a.yaml': secret('written', plain),
        'b.yaml': secret('hook', plain, note),
        'c.yaml': secret('variable', plain, variable),
        'd.yaml': map(`round-${count}`),
      })
      return (await started.becomes(Phase.SYNCED)).problem
    }
    const write = () => ground.merge(keyOf('Secret', 'written'), { data: { 'hidden-key': '' } }, 'robot')
    await push(0)
    await write()
    await push(1)
    await write()
    const problem = await push(2)
    t.match(problem, /Secret shop\/hook is a hook \(helm\.sh\/hook: \*\*\*\): made like other objects/)
    t.match(problem, /postBuild are not replaced in Secret shop\/variable: /)
    t.match(problem, /Secret shop\/written: robot writes \.data\.… as well, and was undone 2 times/)
    await search(t, started)
    await started.stop()
  })

  await t.test('a custom kind keeps its texts', async (t) => {
    const started = await side.start(t, [source])
    const sealed = 'apiVersion: bitnami.com/v1alpha1\nkind: SealedSecret\nmetadata: { name: a }\nspec: { a: 1, a: 2 }\n'
    started.project.push({ 'a.yaml': sealed })
    t.match((await started.becomes(Phase.REFUSED)).problem, /^a\.yaml:4: the map has the key a twice$/)
    await started.stop()
  })
})
