import t from 'tap'
import { type Found, failed } from '../../../../src/lib/doctor/findings.ts'
import { type Check, runChecks } from '../../../../src/lib/doctor/run-checks.ts'

const ok: Found = { state: 'ok', text: 'fine' }

t.test('findings come in the order of the table, whichever check yields them', async (t) => {
  const slow = Promise.withResolvers<Found[]>()
  const checks: Check<string>[] = [
    { name: 'first', run: () => slow.promise },
    { name: 'second' },
    {
      name: 'third',
      run: (ground) => {
        slow.resolve([ok, { ...ok, text: 'also' }])
        return [
          { ...ok, text: ground },
          { ...ok, check: 'second', subject: 'by the third' },
          { ...ok, check: 'first' },
        ]
      },
    },
  ]
  t.strictSame(await runChecks(checks, 'ground'), [
    { check: 'first', ...ok },
    { check: 'first', ...ok, text: 'also' },
    { check: 'first', ...ok },
    { check: 'second', ...ok, subject: 'by the third' },
    { check: 'third', ...ok, text: 'ground' },
  ])
})

t.test('a check that blocks: those that need it are skipped with its reason, and no others', async (t) => {
  const ran: string[] = []
  const run = (name: string) => () => {
    ran.push(name)
    return [ok]
  }
  const checks: Check<object>[] = [
    { name: 'server', run: () => [{ ...failed('it is down', 'start it'), blocks: 'it cannot be asked' }] },
    { name: 'beside', run: run('beside') },
    { name: 'rights', needs: ['beside', 'server'], run: run('rights') },
    { name: 'more', needs: ['rights'] },
    { name: 'after', needs: ['beside'], run: run('after') },
  ]
  const reason = { state: 'skipped', text: 'it cannot be asked' }
  t.strictSame(await runChecks(checks, {}), [
    { check: 'server', ...failed('it is down', 'start it') },
    { check: 'beside', ...ok },
    { check: 'rights', ...reason },
    { check: 'more', ...reason },
    { check: 'after', ...ok },
  ])
  t.strictSame(ran, ['beside', 'after'])
})

t.test('a failure that does not block', async (t) => {
  const checks: Check<object>[] = [
    { name: 'server', run: () => [failed('it does not say its version')] },
    { name: 'rights', needs: ['server'], run: () => [ok] },
  ]
  t.match(await runChecks(checks, {}), [{ state: 'failed' }, { check: 'rights', state: 'ok' }])
})

t.test('without a configuration all checks are skipped', async (t) => {
  const run = () => {
    throw new Error('it was run')
  }
  const checks: Check<object>[] = ['one', 'two'].map((name) => ({ name, run }))
  const text = 'the configuration cannot be used'
  t.strictSame(await runChecks(checks, undefined), [
    { check: 'one', state: 'skipped', text },
    { check: 'two', state: 'skipped', text },
  ])
})

t.test('bad tables and checks', async (t) => {
  const needs = ['later']
  await t.rejects(runChecks([{ name: 'early', needs }, { name: 'later' }], {}), {
    message: 'early needs later, which is no earlier check',
  })
  const broken: Check<object> = { name: 'broken', run: () => Promise.reject(new Error('a defect')) }
  await t.rejects(runChecks([broken, { name: 'after', needs: ['broken'] }], {}), { message: 'a defect' })
})
