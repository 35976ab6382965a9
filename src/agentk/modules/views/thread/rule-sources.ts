/** Rules of health, read but not compiled, for the parts of views outside of the thread. */
export { type RuleReader, type RuleSources, ruleReader } from '../../../health/custom/rule-sources.ts'
